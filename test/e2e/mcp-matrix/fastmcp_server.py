"""A refund over MCP. Usage: http PORT FILE | stdio FILE; the file gets a line for each refund."""

import sys

from mcp.server.fastmcp import FastMCP

transport, *port, path = sys.argv[1:]
server = FastMCP("payments", port=int(port[0]) if port else 8000, log_level="WARNING")


@server.tool()
def refund(amount: float) -> str:
    with open(path, "a") as performed:
        performed.write(f"{amount:g}\n")
    return f"refunded {amount:g}"


server.run(transport="streamable-http" if transport == "http" else "stdio")
