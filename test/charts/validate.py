"""Validates manifests with the schemas of Kubernetes.

Reads a JSON array of {"version", "title", "manifest"} from standard input; prints a JSON array of problems.
"""

import json
import sys

import kubernetes_validate

problems = []
for one in json.load(sys.stdin):
    try:
        kubernetes_validate.validate(one["manifest"], one["version"], strict=True)
    except kubernetes_validate.ValidationError as error:
        path = ".".join(str(part) for part in error.path)
        problems.append(f"{one['title']}, Kubernetes {one['version']}: {path}: {error.message}")
    except kubernetes_validate.SchemaNotFoundError as error:
        problems.append(f"{one['title']}, Kubernetes {one['version']}: {error.message}")
json.dump(problems, sys.stdout)
