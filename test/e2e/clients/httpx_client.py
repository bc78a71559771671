import httpx
from lines import JSON, answer_calls

client = httpx.Client(timeout=60)


def call(method, url, body):
    response = client.request(method, url, content=body, headers=JSON)
    return response.text, response.status_code, response.headers.get("location")


answer_calls(call)
