"""The server for coding agents, driven by the client of the official SDK."""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from candidates import HONEST

mcp = pytest.importorskip("mcp")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux")

SPEC = """
import numpy as np
from neuroncore.eval import Spec

def inputs(seed, shape):
    return tuple(np.random.default_rng(seed).standard_normal((2, *shape), np.float32))

print("specifications may print")
SPEC = Spec(lambda a, b: 2 * a + b, inputs, [(128, 64)], tol=1e-6, seeds=1)
"""
HEAD = "import os, pathlib, socket\n" + HONEST
ARGS = ["float32[128,64]", "float32[128,64]"]


async def conversation(folder):
    """Return the answers of tools: the text, and whether it is an error."""
    words = ["-m", "neuroncore", "mcp", "--folder", str(folder), "--spec", str(folder / "spec.py")]
    parameters = mcp.StdioServerParameters(command=sys.executable, args=[*words, "--seconds", "1"])
    found = {}
    async with mcp.Client(mcp.stdio_client(parameters)) as client:

        async def ask(asked, tool, **given):
            result = await client.call_tool(tool, given)
            found[asked] = (result.content[0].text, bool(result.is_error))

        found["tools"] = {one.name for one in (await client.list_tools()).tools}
        await ask("run", "run", kernel="a.py::kernel", args=ARGS)
        await ask("check", "check", kernel="a.py::kernel", args=ARGS)
        await ask("why", "why", kernel="a.py::kernel", args=ARGS, options=["--top", "1"])
        await ask("diff", "diff", old="a.py::kernel", new="a.py::kernel", args=ARGS)
        await ask("usage", "run", kernel="missing.py::kernel")
        for name, body in HOSTILE.items():
            source = f"{HEAD}\n{body}\n"
            await ask(name, "run", kernel="b.py::kernel", args=ARGS, source=source)
        await ask("after", "run", kernel="a.py::kernel", args=ARGS)
        await ask("eval", "eval", candidate="a.py")
        await ask("outside", "eval", candidate="../a.py")
        await ask("explain", "explain", code="UNINIT_READ")
        await ask("isa", "isa", instruction="activation")
        await ask("machines", "machines", name="trn2")
    return found


HOSTILE = {
    "writes": "pathlib.Path(__file__).with_name('new').write_text('x')",
    "reads": "print(pathlib.Path('/etc/passwd').read_text())",
    "network": "socket.socket()",
    "forks": "os.fork()",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "spins": "while True: pass",
}


def test_tools_run_kernels_in_isolated_processes(tmp_path):
    (tmp_path / "a.py").write_text(HONEST)
    (tmp_path / "spec.py").write_text(SPEC)
    with ThreadPoolExecutor(1) as pool:  # playwright may have an event loop in this thread
        found = pool.submit(asyncio.run, conversation(tmp_path)).result()
    tools = {"run", "check", "why", "diff", "eval", "explain", "isa", "machines"}
    assert found["tools"] == tools
    assert not any(found[name][1] for name in tools - {"tools"})
    text = found["run"][0]
    assert "kernel on trn2" in text and "isolation  linux (namespaces" in text
    assert "1 launch run" in found["check"][0]
    assert "kernel" in found["why"][0] and "equal bit for bit" in found["diff"][0]
    verdict = json.loads(found["eval"][0])
    assert (verdict["status"], verdict["repeat"]) == ("passed", None)
    assert "UNINIT_READ" in found["explain"][0] and "trn2" in found["machines"][0]
    assert found["usage"][1] and "there is no file missing.py" in found["usage"][0]
    for name in ("writes", "reads", "network", "forks"):
        assert "Error" in found[name][0] and "kernel on trn2" not in found[name][0], found[name]
    assert "KILLED: the process ended by signal 11" in found["crashes"][0]
    assert "TIME: the process took more than 1 s" in found["spins"][0]
    assert found["outside"][1]
    assert found["after"] == found["run"]
