"""Converts Python errors about the API to neuroncore's errors. Such errors are about a missing
name, arguments that a function doesn't accept, or a tensor that is passed to a function of
numpy."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, ModuleType, TracebackType
from typing import Any

from neuroncore.base import source, syntax
from neuroncore.base.errors import (
    REPORT,
    EmulatorError,
    KernelError,
    NeuronError,
    OutOfBoundsError,
    SignatureError,
    UnknownNameError,
    did_you_mean,
)
from neuroncore.base.units import plural
from neuroncore.frontend.tensors import Unread

WRONG = (TypeError, AttributeError, ValueError, IndexError, OverflowError)
PACKAGE = "neuroncore."
HOME = "neuroncore.frontend."  # users import the modules by the rest of their names
# functions of numpy that have another name in nki.language
NUMPY = {"absolute": "abs", "amax": "max", "amin": "min", "dot": "matmul"}
NO_UFUNC = "__array_ufunc__"  # occurs in numpy's message


def explanation(error: BaseException) -> NeuronError | None:
    """Return a Python error as a NeuronError at the user's line, or None if the error isn't about
    neuroncore. Return an EmulatorError if neuroncore has the fault, not the user's code."""
    frame, instruction = source.innermost(error.__traceback__)
    if frame is None:
        return None
    if isinstance(error, AttributeError) and _is_our_own(frame, error):
        return _our_fault(frame, instruction, error)
    explained: KernelError | None = None
    if isinstance(error, ImportError):
        explained = _no_import(error)
    elif isinstance(error, AttributeError):
        explained = _no_attribute(frame, error)
    if explained is None and isinstance(error, WRONG):
        explained = _refused(frame, instruction, error)
    return explained and explained.coming_through(error.__traceback__)


def _is_our_own(frame: FrameType, error: AttributeError) -> bool:
    """Return whether neuroncore's code used an attribute that an object of neuroncore lacks. Return
    False if the object is one of the user's arguments."""
    below = _below(frame, error)
    if below is None or below.tb_frame.f_code.co_name == "__getattr__":
        return False  # the user's code used the attribute
    home = error.obj.__name__ if isinstance(error.obj, ModuleType) else type(error.obj).__module__
    local_values = below.tb_frame.f_locals.values()
    return f"{home}.".startswith(PACKAGE) and not any(error.obj is value for value in local_values)


def _below(frame: FrameType, error: BaseException) -> TracebackType | None:
    """Return an error's traceback from the function that `frame` called, or None if `frame` itself
    raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame is not frame:
        trace = trace.tb_next
    return trace and trace.tb_next


def _our_fault(frame: FrameType, instruction: int, error: Exception) -> EmulatorError:
    where = source.place(frame.f_code, instruction)
    message = f"{where}: neuroncore failed here: {type(error).__name__}: {error}"
    fault = EmulatorError(message, hint=REPORT)
    fault.__cause__ = error
    return fault


# --- names ----------------------------------------------------------------------------------------


def _no_attribute(frame: FrameType, error: AttributeError) -> KernelError | None:
    home, name = error.obj, error.name
    # True if the code sets an attribute. Before Python 3.13 this error has no name; since 3.13 it
    # has one, and its message ends with these words.
    is_set = name is None or str(error).endswith("for setting new attributes")
    if is_set and not _is_inside(error):
        return _not_set(str(error))
    if name is None or name.startswith("__"):
        return None
    if isinstance(home, ModuleType):
        if not home.__name__.startswith(HOME):
            return None
        spelt = home.__name__.removeprefix(HOME)
        return _unknown(spelt, name, home, _written(frame, home) or spelt.rpartition(".")[2])
    if not type(home).__module__.startswith(HOME):
        return None
    return _function_instead(frame, name, home) or _unknown(str(home), name, home, "")


def _not_set(message: str) -> KernelError | None:
    """Return the error for setting an attribute of a tensor, as in `tensor.scale = 2.0`. Return
    None for other objects. Python's message names only the class of the object."""
    match = re.match(r"'(\w+)' object has no attribute '(\w+)'", message)
    if match is None or match[1] not in (kind.__name__ for kind in _kinds_of(Unread)):
        return None
    return UnknownNameError(
        f"a tensor has no {match[2]!r}, and attributes cannot be set",
        because="a tensor has only the attributes that the API defines",
        hint="use a variable, or an object that contains the tensor",
    )


def _kinds_of(kind: type) -> Iterator[type]:
    """Yield a class and all classes that inherit from it."""
    yield kind
    subclasses: list[type] = kind.__subclasses__()
    for derived in subclasses:
        yield from _kinds_of(derived)


def _function_instead(frame: FrameType, name: str, tensor: Any) -> KernelError | None:
    """Return the error for a method such as `x.transpose()`, if the API has a function
    `nl.transpose(x)`. Return None if the API has no such function."""
    language, other = _language_of(type(tensor).__module__), "transpose" if name == "T" else name
    if language is None or other not in dir(language) or not callable(getattr(language, other)):
        return None
    spelt = f"{_written(frame, language) or 'nl'}.{other}"
    return UnknownNameError(
        f"{tensor} has no {name!r}",
        expected=_form(spelt, getattr(language, other)),
        hint=f"{spelt} is a function of tiles",
    )


def _language_of(module: str) -> ModuleType | None:
    """Return the module nki.language of a module's dialect, or None if the module belongs to no
    dialect."""
    while module := module.rpartition(".")[0]:
        if (language := sys.modules.get(f"{module}.language")) is not None:
            return language
    return None


def _unknown(what: str, name: str, home: Any, prefix: str) -> KernelError:
    """Return the error for a name that `home`, a module or a tensor, doesn't have. The message
    calls `home` by the text `what`. `prefix` is the name of the module in the user's code."""
    if removed := getattr(home, "_REMOVED", {}).get(name):
        return UnknownNameError(f"{what} has no {name!r}", hint=removed)
    known = [n for n in dir(home) if not n.startswith("_")]
    hint = did_you_mean(name, known)
    near = hint and hint.split("'")[1]
    form = near and _form(f"{prefix}.{near}" if prefix else near, getattr(home, near))
    return UnknownNameError(f"{what} has no {name!r}", expected=form, hint=hint)


def _no_import(error: ImportError) -> KernelError | None:
    """Return the error for an import such as `from nki.isa import tensor_scaler`, whose name
    doesn't exist. Return None for other errors of imports."""
    match = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
    home = sys.modules.get(match[2]) if match else None
    if match is None or home is None or not home.__name__.startswith(HOME):
        return None
    return _unknown(home.__name__.removeprefix(HOME), match[1], home, "")


def _written(frame: FrameType, module: ModuleType) -> str | None:
    """Return the name of a module in the user's code, such as `nl`, or None."""
    space = {**frame.f_globals, **frame.f_locals}
    return next((name for name, value in space.items() if value is module), None)


# --- calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Called:
    """A call in the user's code: the function, its name in this code, and the syntax node of the
    call."""

    function: Any
    name: str
    node: ast.Call

    @property
    def ours(self) -> bool:
        """Return whether the function belongs to neuroncore, or is an object of a neuroncore class,
        such as a kernel."""
        homes = getattr(self.function, "__module__", None) or "", type(self.function).__module__
        return any(home.startswith(PACKAGE) for home in homes)

    @property
    def keywords(self) -> list[str]:
        return [k.arg for k in self.node.keywords if k.arg is not None]

    @property
    def unpacks(self) -> bool:
        """Return whether the call has arguments that the source doesn't list: `*args` or
        `**kwargs`."""
        starred = any(isinstance(argument, ast.Starred) for argument in self.node.args)
        return starred or len(self.keywords) < len(self.node.keywords)


def _refused(frame: FrameType, instruction: int, error: Exception) -> KernelError | None:
    """Return the error for an expression, such as a call, that does not accept its operands. Return
    None if the error is not about neuroncore."""
    if syntax.call(frame.f_code, instruction) is None:
        return _wrong_values("this expression", None, error) if _is_inside(error) else None
    called = _called(frame, instruction)
    if called is None or not callable(called.function):
        return None
    if NO_UFUNC in str(error):
        return of_numpy(frame, _name_of(called, "function"), "a tensor")
    wrong = None if called.unpacks or not called.ours else _wrong_arguments(called)
    home = getattr(called.function, "__module__", None) or ""
    if wrong is not None or not (home.startswith(PACKAGE) and _is_inside(error)):
        return wrong
    return _wrong_values(called.name, _form(called.name, called.function), error)


def _is_inside(error: Exception) -> bool:
    """Return whether an error was raised inside a function of neuroncore."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(PACKAGE)


def _wrong_values(what: str, form: str | None, error: Exception) -> KernelError:
    kind = OutOfBoundsError if isinstance(error, IndexError) else SignatureError
    refusal = kind(f"{what} failed with these arguments: {error}", expected=form)
    refusal.__cause__ = error
    return refusal


def _called(frame: FrameType, instruction: int) -> _Called | None:
    """Return the call that a frame is making. Return None if the called function is neither a name
    nor an attribute of a name."""
    node = syntax.call(frame.f_code, instruction)
    if node is None or not _is_name(node.func):
        return None
    code = compile(ast.Expression(node.func), frame.f_code.co_filename, "eval")
    try:
        function = eval(code, frame.f_globals, frame.f_locals)
    # the name is from an enclosing scope, or a property of the user's object raised this error
    except Exception:
        return None
    return _Called(function, ast.unparse(node.func), node)


def _is_name(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _wrong_arguments(called: _Called) -> KernelError | None:
    """Return the error for arguments that don't fit the signature, or None if they fit."""
    signature = inspect.signature(called.function)
    count, keywords = len(called.node.args), called.keywords
    try:
        signature.bind(*[None] * count, **dict.fromkeys(keywords))
    except TypeError:
        pass
    else:
        return None
    form = _form(called.name, called.function)
    names = _by_name(signature)
    unknown = [k for k in keywords if k not in names]
    free = [name for name in names[count:] if name not in keywords]
    absent = [n for n in free if signature.parameters[n].default is inspect.Parameter.empty]
    for near in (absent, free) if unknown else ():
        if hint := did_you_mean(unknown[0], near):
            return _no_parameter(called, unknown[0], form, hint)
    if unknown and not absent:
        return _no_parameter(called, unknown[0], form, None)
    if absent:
        missing = f"{called.name} lacks the {'argument' if len(absent) == 1 else 'arguments'}"
        return SignatureError(f"{missing} {', '.join(absent)}", expected=form)
    twice = [k for k in keywords if k in names[:count]]
    if twice:
        return SignatureError(f"{called.name} got the argument {twice[0]} twice", expected=form)
    given = plural(count, "positional argument")
    return SignatureError(f"{called.name} doesn't take {given}", expected=form)


def _no_parameter(called: _Called, name: str, form: str | None, hint: str | None) -> KernelError:
    language = _language_of(getattr(called.function, "__module__", None) or "")
    hint = hint or getattr(language, "_REMOVED", {}).get(name)
    statement = f"{called.name} has no parameter {name!r}"
    return SignatureError(statement, argument=name, expected=form, hint=hint)


def _by_name(signature: inspect.Signature) -> list[str]:
    var = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [p.name for p in signature.parameters.values() if p.kind not in var]


def _form(name: str, function: Any) -> str | None:
    """Return the text `name(x, y, ...)` with the parameters of a function, or None if they are
    unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = [p for p in plain if p.kind is not p.VAR_KEYWORD]
    return f"{name}{inspect.Signature(shown)}"


# --- numpy ----------------------------------------------------------------------------------------


def refused_ufunc(name: str, tensor: object) -> KernelError:
    """Return the error for a numpy function that the user's code or numpy applies to a tensor."""
    frame = source.user_frame()
    called = _called(frame, frame.f_lasti) if frame is not None else None
    return of_numpy(frame, _name_of(called, name), str(tensor))


def _name_of(called: _Called | None, name: str) -> str:
    """Return numpy's name of the called function, or `name` if the function isn't numpy's."""
    if called is None or not type(called.function).__module__.startswith("numpy"):
        return name
    return str(called.function.__name__)


def of_numpy(frame: FrameType | None, name: str, what: str) -> KernelError:
    """Return the error for a call of numpy's function `name` with a tensor. The message calls the
    tensor `what`."""
    equivalent = NUMPY.get(name, name)
    language = next(_languages(frame), None) if frame is not None else None
    hint = (
        f"use {language[0]}.{equivalent}" if language and equivalent in dir(language[1]) else None
    )
    return SignatureError(
        f"numpy's {name} can't compute with {what}",
        because="a tensor is in the device's memory, and the host does not know its values",
        hint=hint,
    )


def _languages(frame: FrameType) -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules nki.language in the user's code, each with its name there."""
    for name, value in {**frame.f_globals, **frame.f_locals}.items():
        home = value.__name__ if isinstance(value, ModuleType) else ""
        if home.startswith(HOME) and home.endswith(".language"):
            yield name, value
