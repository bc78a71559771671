"""Writes each broken promise of the OpenAPI document as a line of JSON, and lets the run go on."""

import json
import os

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    positive_data_acceptance,
)


@schemathesis.serializer("application/x-ndjson")
def lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.check
def promises(ctx, response, case):
    for check in CHECKS:
        try:
            check(ctx, response, case)
        except BaseException as error:
            if not isinstance(error, (AssertionError, BaseExceptionGroup)):
                raise
            note(check.__name__, error, response, case)


def note(name, error, response, case):
    body = case.body
    finding = {
        "check": name,
        "operation": f"{case.operation.method.upper()} {case.operation.path}",
        "status": response.status_code,
        "answer": (response.text or "")[:2000],
        "problem": str(error)[:1000],
        "query": repr(case.query)[:300],
        "path": repr(case.path_parameters)[:300],
        "body": body.decode("latin1") if isinstance(body, bytes) else repr(body)[:1000],
    }
    with open(os.environ["FINDINGS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(finding) + "\n")
