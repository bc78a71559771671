import sys


def answer_calls(call):
    """Lines of METHOD URL BODY; answers of BODY STATUS LOCATION; tabs between."""
    for line in iter(sys.stdin.readline, ""):
        text, status, location = call(*task(line))
        print(text, status, location or "", sep="\t", flush=True)


def task(line):
    method, url, body = (line.rstrip("\n").split("\t") + [""])[:3]
    return method, url, body or None


JSON = {"content-type": "application/json"}
