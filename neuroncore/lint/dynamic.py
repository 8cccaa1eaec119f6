"""Rules about values that only the device knows, about loops that the device runs, and about inputs
and effects of a kernel other than its arguments and results.

A value of the device is a value that only the device knows, such as a register or the contents of a
tensor. A value of the file is assigned to a name at module level. A loop of the device is a loop
that the compiler does not unroll.

A compiled kernel is cached, and used again for equal arguments. Then the Python code of the kernel
does not run again. So it does not read new values of globals or of the host, and does not repeat
its effects on the host. A rule yields its findings as tuples (code, node, sentence)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from neuroncore.lint.constructs import Report, Rules, Spot, loops_of_assignments
from neuroncore.lint.inference import RUNTIME, Scope
from neuroncore.lint.modules import ROLES
from neuroncore.lint.syntax import argument, default_of, literal, name_of, nested

RULES = Rules()
WHAT = {
    "tensor": "a tensor, whose elements are known only at run time",
    "register": "a register, whose value is known only at run time",
    "index": "the index of a device loop, whose value is known only at run time",
    "indices": "an index expression, which has a value for each element",
}
# functions of Python that need numbers or truth values, or that compare their arguments
OF_NUMBERS = ("int", "float", "bool", "range", "min", "max", "sorted", "divmod", "round", "pow")
# functions that iterate over their argument
ITERATING = (
    *("enumerate", "zip", "list", "tuple", "map", "filter", "sum", "any", "all", "iter"),
    *("reversed", "sorted", "next"),
)
OF_TRUTH = ("bool", "any", "all")  # functions in these two lists that need only truth values
NUMBER_OR_ITERATION = frozenset((*OF_NUMBERS, *ITERATING))
WHILE_ENDS = "0.6"  # the release that deprecates `while`: NKI migration guide, 0.5 to 0.6
LIBRARIES = ("numpy", "math")  # modules whose functions take numbers


def _runtime(scope: Scope, node: ast.expr) -> str:
    """Return a description of an expression whose value the compiler can't know, or ""."""
    kind = scope.value(node).kind
    return WHAT[kind] if kind in RUNTIME else ""


def _is_in_hbm(scope: Scope, node: ast.expr) -> bool:
    """Return whether a node is a tensor in HBM. Kernels test such a tensor to see whether an
    optional argument was passed."""
    memory = scope.value(node).memory
    return memory is not None and memory not in ROLES["on_chip"]


def _may_be_given(scope: Scope, asker: ast.AST, node: ast.expr) -> bool:
    """Return whether a condition such as `if bias:` tests whether the caller passed the tensor
    `node`, and not its contents. `asker` is the statement or expression with the condition."""
    tested = scope.value(node)
    asked_so = not isinstance(asker, ast.While | ast.UnaryOp)
    return tested.kind == "tensor" and asked_so and not tested.compared


@RULES.about(ast.If, ast.IfExp, ast.Assert, ast.While, ast.BoolOp, ast.UnaryOp, ast.Compare)
def conditions(spot: Spot) -> Iterator[Report]:
    """Report conditions whose truth value the compiler can't know."""
    node, scope = spot.node, spot.scope
    tests: list[ast.expr] = []
    match node:
        case ast.If() | ast.IfExp():
            tests = [node.test]
        # assertions about tensors are left out, because they are meant for simulations
        case ast.Assert() if scope.value(node.test).kind != "tensor":
            tests = [node.test]
        case ast.While() if scope.value(node.test).kind != "register":
            tests = [node.test]
        case ast.While(test=ast.Compare() | ast.BinOp() | ast.UnaryOp()):
            tests = [node.test]
        case ast.BoolOp():
            tests = node.values
        case ast.UnaryOp(op=ast.Not()):
            tests = [node.operand]
        case ast.Compare() if len(node.ops) > 1:  # a chain of comparisons is joined by `and`
            tests = [node]
    for test in tests:
        if isinstance(test, ast.BoolOp) or (isinstance(test, ast.UnaryOp) and not scope.is_older):
            continue  # its operands are separate Spots
        if scope.value(test).kind == "indices":
            yield "MASK_TRUTH", test, f"the condition `{ast.unparse(test)}` is {WHAT['indices']}"
        what = _runtime(scope, test)
        if what and not _is_in_hbm(scope, test):
            condition = f"the condition `{ast.unparse(test)}`"
            if _may_be_given(scope, node, test):
                message = f"{condition} is a tensor, which is true for any contents"
                yield "TENSOR_TRUTH", test, message
            else:
                yield "DYNAMIC_CTRL", test, f"{condition} depends on {what}"


@RULES.about(ast.For, ast.comprehension)
def iterations(spot: Spot) -> Iterator[Report]:
    """Report Python loops that iterate over values of the device."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.For | ast.comprehension) and (what := _runtime(scope, node.iter)):
        code = "TENSOR_LOOP" if scope.value(node.iter).kind == "tensor" else "DYNAMIC_CTRL"
        yield code, node.iter, f"a loop iterates over {what}"


@RULES.about(ast.Call)
def conversions(spot: Spot) -> Iterator[Report]:
    """Report Python numbers, ranges, arrays and lists that are made from values of the device."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    builtin = node.func.id if isinstance(node.func, ast.Name) else ""
    called = scope.program.modules.meaning(scope.module, node.func)
    module = called.partition(".")[0] if isinstance(called, str) and "." in called else ""
    ranges = scope.api(node.func) in ROLES["traced_ranges"] and not scope.is_older
    if not (builtin in NUMBER_OR_ITERATION or module in LIBRARIES or ranges):
        return
    for read in (inner for passed in node.args for inner in _passed(passed, builtin)):
        what = _runtime(scope, read)
        inner = read not in node.args  # `any` and similar functions test only its truth
        if what and not inner and builtin in ITERATING and scope.value(read).kind == "tensor":
            yield "TENSOR_LOOP", node, f"`{builtin}` iterates over {what}"
        elif what and (inner or builtin in OF_NUMBERS or module in LIBRARIES or ranges):
            may_be_given = builtin in OF_TRUTH and _may_be_given(scope, node, read)
            code = "TENSOR_TRUTH" if may_be_given else "DYNAMIC_CTRL"
            yield code, node, f"`{ast.unparse(node.func)}` is called with {what}"


def _passed(passed: ast.expr, function: str) -> list[ast.expr]:
    """Return the values that a call of `function` reads from its argument: the elements of a list
    for `any`, `all`, `min` and `max`, otherwise `passed`."""
    listed = isinstance(passed, ast.List | ast.Tuple) and function in (
        "any",
        "all",
        "min",
        "max",
    )
    return [*passed.elts] if listed else [passed]  # type: ignore[attr-defined]


@RULES.about(ast.Assign, ast.Starred)
def unpacked(spot: Spot) -> Iterator[Report]:
    """Report tensors that are unpacked into names, or with `*` into arguments."""
    node, scope = spot.node, spot.scope
    values = [node.value] if isinstance(node, ast.Starred) else []
    if isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Tuple | ast.List) for target in node.targets
    ):
        values = [node.value]
    for value in values:
        if scope.value(value).kind == "tensor":
            yield (
                "TENSOR_LOOP",
                node,
                f"`{ast.unparse(value)}` is unpacked, but it is {WHAT['tensor']}",
            )


@RULES.about(ast.Subscript)
def elements(spot: Spot) -> Iterator[Report]:
    """Report Python lists and dictionaries that are indexed by a value of the device."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Subscript)
    is_list = scope.elements(node.value) is not None
    container = scope.stands_for(node.value)
    if scope.value(node.slice).kind in ("register", "index") and (
        is_list or isinstance(container, ast.List | ast.Tuple | ast.Dict)
    ):
        what = _runtime(scope, node.slice)
        yield "DYNAMIC_CTRL", node, f"`{ast.unparse(node.value)}` is indexed by {what}"


# --- loops ----------------------------------------------------------------------------------------


@RULES.about(ast.For, ast.While, ast.Call, ast.Break, ast.Continue, ast.Return)
def loops(spot: Spot) -> Iterator[Report]:
    """Report loops of the device that are not allowed, deprecated `while` loops, and `break`,
    `continue` and `return` in loops of the device."""
    node, scope = spot.node, spot.scope
    if spot.ordered and (_is_a_loop(scope, node) or _calls_a_loop(scope, node)):
        at = node.iter if isinstance(node, ast.For) else node
        yield "LOOP_IN_NO_REORDER", at, "a device loop is inside a block of no_reorder"
    if isinstance(node, ast.While) and _is_a_loop(scope, node) and scope.release >= WHILE_ENDS:
        yield "DEPRECATED", node, "a `while` of a register is deprecated: nl.while_loop replaces it"
    if isinstance(node, ast.Break | ast.Continue) and spot.loops and _ends(spot):
        word = "break" if isinstance(node, ast.Break) else "continue"
        yield "LEAVING_A_LOOP", node, f"a device loop contains `{word}`"
    if isinstance(node, ast.Return) and any(
        isinstance(loop, ast.For | ast.While) for loop in spot.loops
    ):
        yield "LEAVING_A_LOOP", node, "a device loop contains `return`"


def _is_a_loop(scope: Scope, node: ast.AST) -> bool:
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
        return scope.api(node.iter.func) in ROLES["dynamic_ranges"]
    if isinstance(node, ast.While):
        return scope.value(node.test).kind == "register"
    return isinstance(node, ast.Call) and scope.api(node.func) in ROLES["loop_bodies"]


def _calls_a_loop(scope: Scope, node: ast.AST, depth: int = 4) -> bool:
    """Return whether a call reaches a function with a loop of the device, through at most `depth`
    calls."""
    called = scope.scope_of(node.func) if isinstance(node, ast.Call) and depth else None
    return called is not None and any(
        _is_a_loop(called, inner) or _calls_a_loop(called, inner, depth - 1)
        for inner in (*called.of(ast.For), *called.of(ast.While), *called.of(ast.Call))
    )


def _ends(spot: Spot) -> bool:
    """Return whether the innermost loop around a `break` or `continue` runs on the device."""
    around = [node for node in spot.scope.nodes if isinstance(node, ast.For | ast.While)]
    enclosing = [loop for loop in around if any(inner is spot.node for inner in nested(loop))]
    return bool(enclosing) and enclosing[-1] in spot.loops


@RULES.about(ast.Call)
def bodies(spot: Spot) -> Iterator[Report]:
    """Report loop bodies with a result that the loop does not take. A loop body is a function that
    a kernel passes to a loop of the device."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    body = scope.body_of(node)
    if body is None:
        return
    name = body.node.name
    results = [
        statement.value
        for statement in body.nodes
        if isinstance(statement, ast.Return) and statement.value
    ]
    results = [
        result
        for result in results
        if not (isinstance(result, ast.Constant) and result.value is None)
    ]
    message = f"the loop body `{name}` returns a value"
    if scope.api(node.func) not in ROLES["counted_loops"]:
        results = [result for result in results if _is_no_condition(body, result)]
        message = f"the loop body `{name}` must return only the next condition, a register"
    for at in (node, *results) if results else ():
        yield "LOOP_BODY_RESULT", at, message


def _is_no_condition(body: Scope, result: ast.expr) -> bool:
    return isinstance(result, ast.Tuple | ast.List) or body.value(result).kind == "tensor"


@RULES.about(ast.Call)
def steps(spot: Spot) -> Iterator[Report]:
    """Report loops of the device whose step is below 1 or known only at run time."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Call)
    where = ROLES["loop_steps"].get(scope.api(node.func))
    step = None if where is None else argument(node, where, "step")
    number = None if step is None else literal(scope.stands_for(step))
    if step is not None and scope.value(step).kind in RUNTIME:
        yield "LOOP_STEP", step, f"the step `{ast.unparse(step)}` is known only at run time"
    elif number is not None and number < 1:
        yield "LOOP_STEP", step or node, f"the step is {number}; it must be at least 1"


@RULES.about(ast.Call, ast.Assign)
def escapes(spot: Spot) -> Iterator[Report]:
    """Report tensors that the body of a device loop allocates and keeps for use after the loop."""
    node, scope = spot.node, spot.scope
    if not scope.is_loop_body:
        return
    kept, name = list[ast.expr](), ""
    match node:
        case ast.Call(func=ast.Attribute(attr="append" | "insert", value=ast.Name(name))):
            kept = node.args[-1:]
        case ast.Assign(
            targets=[
                ast.Subscript(value=ast.Name(name))
                | ast.Attribute(value=ast.Name(name))
                | ast.Name(name)
            ]
        ):
            kept = [node.value]
    for value in kept if name not in scope.bindings else []:
        if _is_born_in(scope, value) and _is_read_elsewhere(scope, name):
            message = f"`{ast.unparse(value)}`, a tensor of the loop's body, is used after the loop"
            yield "LOOP_TENSOR_KEPT", node, message


def _is_read_elsewhere(scope: Scope, name: str) -> bool:
    """Return whether code other than bodies of device loops may read a name of an outer scope."""
    owner = scope.outer
    while owner is not None and name not in (*owner.bindings, *owner.parameters):
        owner = owner.outer
    if owner is None or name in owner.parameters:  # callers may read it
        return True
    places = (place for place in (owner, *owner.all_inner()) if not place.is_loop_body)
    names = (one for place in places for one in place.of(ast.Name) if one.id == name)
    return any(isinstance(one.ctx, ast.Load) for one in names)


def _is_born_in(scope: Scope, node: ast.expr) -> bool:
    value = scope.value(node)
    maker = scope.scope_of(node.func) if isinstance(node, ast.Call) else None
    born = value.born is not None or (maker is not None and maker.makes_its_result())
    return value.kind == "tensor" and born


@RULES.about(ast.Call, ast.AugAssign)
def induction(spot: Spot) -> Iterator[Report]:
    """Report writes to the index of a loop of the device. They have no effect, because the device
    counts iterations in a separate register."""
    node, scope = spot.node, spot.scope
    if isinstance(node, ast.Call) and scope.api(node.func) in ROLES["register_writers"]:
        register = argument(node, 0, "dst")
        if register is not None and scope.value(register).kind == "index":
            yield (
                "INDUCTION_WRITE",
                node,
                f"the kernel writes to `{ast.unparse(register)}`, the index of a device loop",
            )
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        bound = scope.bindings.get(node.target.id, [])
        is_given = scope.loop_values.get(node.target.id) is not None
        if is_given or any(_counts(scope, how, source) for how, source in bound):
            yield (
                "INDUCTION_WRITE",
                node,
                f"the kernel writes to `{node.target.id}`, the index of a device loop",
            )


def _counts(scope: Scope, how: str, source: ast.expr) -> bool:
    is_call = how == "each" and isinstance(source, ast.Call)
    return is_call and scope.api(source.func) in ROLES["dynamic_ranges"]  # type: ignore[attr-defined]


def _loops_of_instructions(scope: Scope) -> dict[str, tuple[ast.AST, ...]]:
    """Return, for each name that this or an enclosing function assigns, the loops of the device
    around the assignment. Names with assignments in different loops are left out."""
    around = {} if scope.outer is None else _loops_of_instructions(scope.outer)
    return {**around, **loops_of_assignments(scope)}


def _first_name(scope: Scope, node: ast.expr) -> str:
    """Return the name to which the instruction `node` was first assigned: `a` for the node `b`
    after `b = a`."""
    name = name_of(node) or ""
    bound = scope.bindings.get(name, [])
    if len(bound) == 1 and bound[0][0] == "is" and isinstance(bound[0][1], ast.Name):
        return bound[0][1].id
    return name


@RULES.about(ast.Call)
def orderings(spot: Spot) -> Iterator[Report]:
    """Report waits between instructions in different loops of the device. There are two cases:

    * The awaited instruction is in a loop that does not contain the waiting instruction.
    * The waiting instruction is in a loop, and the awaited instruction is issued before this
      loop."""
    node, scope = spot.node, spot.scope
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    if node.func.attr not in ROLES["ordering_methods"]:
        return
    waiting, assigned = node.func.value, _loops_of_instructions(scope)
    called = isinstance(waiting, ast.Call)
    consumer = spot.loops if called else assigned.get(_first_name(scope, waiting))
    for other in node.args:
        producer = assigned.get(_first_name(scope, other))
        if producer is None or consumer is None:
            continue
        message = f"`{ast.unparse(waiting)}` waits for `{ast.unparse(other)}`, which is issued"
        if producer != consumer[: len(producer)]:
            inside = "in a device loop that does not contain the waiting instruction"
            yield "ORDER_ACROSS_LOOPS", node, f"{message} {inside}"
        elif producer != consumer:
            before = "before the device loop of the waiting instruction"
            yield "ORDER_INTO_A_LOOP", node, f"{message} {before}"


CHANGING = (
    *("append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "popitem"),
    *("add", "discard", "sort", "reverse"),
)


@RULES.about(ast.Attribute, ast.Name)
def host_state(spot: Spot) -> Iterator[Report]:
    """Report kernels that use random numbers, the environment, clocks or files of the host."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    meaning = scope.program.modules.meaning(scope.module, _made_by(scope, node))
    of_host = isinstance(node, ast.Name) and node.id in ROLES["host_functions"]
    if isinstance(node, ast.Name) and of_host and scope.is_of_python(node.id):
        yield "IMPURE_KERNEL", node, f"a kernel uses `{node.id}`, which belongs to the host"
    elif isinstance(meaning, str) and _is_of_the_host(meaning):
        yield "IMPURE_KERNEL", node, f"a kernel uses `{meaning}`, which belongs to the host"


def _made_by(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the function that made the value of the global name `node`, such as a random number
    generator. Return `node` itself for other expressions."""
    if isinstance(node, ast.Name) and node.id not in (*scope.bindings, *scope.parameters):
        file_value = scope.module.values.get(node.id)
        return file_value.func if isinstance(file_value, ast.Call) else node
    return node


@cache
def _is_of_the_host(dotted: str) -> bool:
    return any(f"{dotted}.".startswith(f"{known}.") for known in ROLES["host_state"])


@RULES.about(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Call)
def changes(spot: Spot) -> Iterator[Report]:
    """Report a kernel that changes a value of the file, or a parameter's default."""
    node, scope = spot.node, spot.scope
    for target in _changed(node):
        if name := _of_the_file(scope, target):
            yield "IMPURE_KERNEL", node, f"a kernel changes the global `{name}`"
        elif name := _default(scope, target):
            message = f"a kernel changes the default of `{name}`, which all calls share"
            yield "IMPURE_KERNEL", node, message


def _changed(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that a statement or a call changes."""
    if isinstance(node, ast.Call):
        func, changed_value = node.func, None
        if isinstance(func, ast.Attribute) and func.attr in CHANGING:
            changed_value = func.value
        elif isinstance(func, ast.Name) and func.id == "next" and node.args:
            changed_value = node.args[0]
        return [] if changed_value is None else [ast.Subscript(changed_value, ast.Constant(0))]
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _of_the_file(scope: Scope, target: ast.expr) -> str:
    """Return the name at module level whose value an assignment to `target` changes, or ""."""
    inner = target
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return ""
    if inner is target:
        return inner.id if inner.id in scope.file_names else ""
    around: Scope | None = scope
    while around is not None:
        if inner.id in around.bindings or inner.id in around.parameters:
            return ""
        around = around.outer
    module = scope.module
    is_module = isinstance(target, ast.Attribute) and inner.id in module.imports
    is_known = is_module or inner.id in module.values or inner.id in module.definitions
    return inner.id if is_known else ""


def _default(scope: Scope, target: ast.expr) -> str:
    """Return the name of the parameter whose default (a list, dictionary or set) an assignment to
    its element may change, or ""."""
    root = name_of(target.value) if isinstance(target, ast.Subscript) else None
    is_given = root in scope.parameters and root not in scope.bindings
    if root is None or isinstance(scope.node, ast.ClassDef) or not is_given:
        return ""
    default = default_of(scope.node.args, root)
    return root if isinstance(default, ast.List | ast.Dict | ast.Set) else ""


@RULES.about(ast.Name)
def changed_values(spot: Spot) -> Iterator[Report]:
    """Report global names that a kernel reads, if the file changes them under `if __name__ ==
    "__main__"`."""
    node, scope = spot.node, spot.scope
    assert isinstance(node, ast.Name)
    if node.id in scope.module.changed and node.id not in scope.file_names:
        message = f"a kernel reads the global `{node.id}`, whose value changes while the file runs"
        yield "IMPURE_KERNEL", node, message


@RULES.about(ast.Attribute, ast.Name)
def older_names(spot: Spot) -> Iterator[Report]:
    """Report names of neuronxcc.nki in a kernel of today's API."""
    node, scope = spot.node, spot.scope
    if not isinstance(node, ast.Attribute | ast.Name) or scope.is_older or not scope.api(node):
        return
    first = (name_of(node) or "").partition(".")[0]
    _, origin = scope.module.imports.get(first, (0, ""))
    if origin.startswith("neuronxcc.nki"):
        yield "OLDER_NAMESPACE", node, f"`{ast.unparse(node)}` is a name of neuronxcc.nki"
