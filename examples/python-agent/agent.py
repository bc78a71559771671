"""A tool of an agent that refunds a payment: `sallyport run -- python3 agent.py AMOUNT`."""

import sys
import time

import httpx

HOLD_SECONDS = 5
APPROVAL_SECONDS = 3600

# Longer than the hold, so that the client does not give up while a human decides. The sidecar is
# found by the proxy variables that `sallyport run` sets.
client = httpx.Client(base_url="http://127.0.0.1:9100", timeout=HOLD_SECONDS + 10)


class Denied(Exception):
    """Sallyport refused the call. Repeating it unchanged does not help."""

    def __init__(self, refusal):
        super().__init__(f"Denied ({refusal['reason_code']}): {refusal['error']}")
        self.next_steps = refusal.get("next_steps", [])


def perform(method, url, body):
    """Performs a call, waits for a human if the policy asks for one, and returns the API's response."""
    while True:
        prefer = {"prefer": f"wait={HOLD_SECONDS}"}
        response = client.request(method, url, json=body, headers=prefer)
        # The sidecar's own responses name the decision. Every other response is the API's.
        decision = response.headers.get("sallyport-decision", "").split(";")[0]
        if response.status_code == 202 and decision == "require_approval":
            wait_for_human(response)
            continue  # The same call, unchanged: an approval covers nothing else.
        if response.status_code == 403 and decision == "deny":
            raise Denied(response.json())
        return response


def wait_for_human(pending):
    """Returns when the approval is decided. The sidecar answers its address; it needs no key."""
    print(f"Waiting for a human: approval {pending.json()['approval_request_id']}", flush=True)
    give_up_at = time.monotonic() + APPROVAL_SECONDS
    while time.monotonic() < give_up_at:
        status = client.get(pending.headers["location"]).json()["status"]
        if status == "expired":
            break
        if status != "pending":
            return
        time.sleep(int(pending.headers["retry-after"]))
    raise TimeoutError("No human decided in time. Ask the user before you try again.")


def refund(payment_id, amount):
    """The tool that the model calls: its result is text for the model."""
    try:
        response = perform("POST", "/refunds", {"payment_id": payment_id, "amount": amount})
    except Denied as denied:
        return "\n- ".join([str(denied), *denied.next_steps])
    response.raise_for_status()
    return f"Refunded {response.json()['refunded']}"


print(refund("p1", int(sys.argv[1])))
