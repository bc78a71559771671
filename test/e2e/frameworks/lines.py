import asyncio
import json
import sys


async def answer_tools(connect, call):
    """Lines of `connect URL` (prints the tools) and `call TOOL ARGUMENTS` (prints what the model reads); tabs between."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, target, arguments = (line.rstrip("\n").split("\t") + ["{}"])[:3]
        if what == "connect":
            print(json.dumps(await connect(target)), flush=True)
        else:
            print(json.dumps(await call(target, json.loads(arguments))), flush=True)
