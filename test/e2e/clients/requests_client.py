import requests
from lines import JSON, answer_calls

session = requests.Session()


def call(method, url, body):
    response = session.request(method, url, data=body, headers=JSON, timeout=60)
    return response.text, response.status_code, response.headers.get("location")


answer_calls(call)
