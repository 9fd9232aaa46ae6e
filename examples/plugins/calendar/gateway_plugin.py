"""A document extractor's side of the plugin protocol: JSON-RPC 2.0, one JSON document a line, on stdin and stdout."""

import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

PROTOCOL_VERSIONS = ["2026-11-01"]
MAX_FRAME_BYTES = 16 * 1024 * 1024
# Texts up to this many bytes travel in the answer, larger ones by file.
MAX_INLINE_BYTES = 1024 * 1024
# Documents read at once, and those that may wait for it; more are refused with BUSY.
WORKERS = 2
MAX_UNDER_WAY = 64

INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32601, -32602, -32603
BUSY, REJECTED = -32000, -32004


class RpcError(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.data = code, data


class Rejected(RpcError):
    """The document is not what it seems to be: trying again cannot help."""

    def __init__(self, message):
        super().__init__(REJECTED, message, {"retryable": False})


class Cancelled(Exception):
    """Nobody waits for the answer any more."""


class Call:
    """What an extractor gets besides its parameters."""

    def __init__(self, connection, call_id):
        self.connection, self.call_id = connection, call_id
        self.cancelled = threading.Event()

    def progress(self, percent=None):
        """Keeps the call alive. Raises Cancelled when it was given up: call it now and then in long work."""
        if self.cancelled.is_set():
            raise Cancelled
        params = {"id": self.call_id}
        if percent is not None:
            params["percent"] = percent
        self.connection.notify("$/progress", params)

    def log(self, level, message):
        self.connection.notify("log", {"level": level, "message": message})


class Connection:
    def __init__(self, extract):
        self.extract = extract
        self.output = claim_stdout()
        self.writing = threading.Lock()
        self.under_way = {}
        self.changing = threading.Lock()
        self.initialized = False
        self.workers = ThreadPoolExecutor(WORKERS)

    # --- What is said ---

    def say(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        with self.writing:
            self.output.write(line + b"\n")
            self.output.flush()

    def notify(self, method, params):
        self.say({"method": method, "params": params})

    def fail(self, call_id, error):
        body = {"code": error.code, "message": str(error)[:4096]}
        if error.data:
            body["data"] = error.data
        self.say({"id": call_id, "error": body})

    # --- What is heard ---

    def listen(self):
        """Until stdin ends, which is also how the gateway's death shows."""
        while True:
            line = sys.stdin.buffer.readline(MAX_FRAME_BYTES + 1)
            if not line:
                return 0
            if len(line) > MAX_FRAME_BYTES:
                print("The gateway sent a line that is too long", file=sys.stderr)
                return 1
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                print("The gateway sent a line that is no JSON", file=sys.stderr)
                continue
            if self.hear(message):
                return 0

    def hear(self, message):
        """True once the gateway has asked the plugin to end."""
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return False
        method, params, call_id = message["method"], message.get("params", {}), message.get("id")
        if "id" not in message:
            if method == "$/cancel" and isinstance(params, dict):
                self.cancel(params.get("id"))
            return False
        if isinstance(call_id, bool) or not isinstance(call_id, (int, float, str)):
            self.fail(None, RpcError(INVALID_REQUEST, "An id is a number or a string"))
            return False
        try:
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "params must be an object")
            return self.answer(method, params, call_id)
        except RpcError as error:
            self.fail(call_id, error)
            return False

    def answer(self, method, params, call_id):
        if method == "plugin.initialize":
            self.say({"id": call_id, "result": self.initialize(params)})
        elif method == "plugin.ping":
            self.say({"id": call_id, "result": {}})
        elif method == "plugin.shutdown":
            self.say({"id": call_id, "result": {}})
            return True
        elif method != "extractor.extract":
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method[:100]!r}")
        elif not self.initialized:
            raise RpcError(INVALID_REQUEST, "extractor.extract came before plugin.initialize")
        else:
            self.start(params, call_id)
        return False

    def initialize(self, params):
        if self.initialized:
            raise RpcError(INVALID_REQUEST, "plugin.initialize came twice")
        offered = params.get("protocolVersions")
        for version in offered if isinstance(offered, list) else []:
            if version in PROTOCOL_VERSIONS:
                self.initialized = True
                return {"protocolVersion": version}
        raise RpcError(REJECTED, f"No common protocol version: this plugin speaks {', '.join(PROTOCOL_VERSIONS)}", {"retryable": False})

    # --- Documents ---

    def start(self, params, call_id):
        for name in ("path", "name", "outputDir"):
            if not isinstance(params.get(name), str):
                raise RpcError(INVALID_PARAMS, f"{name} must be a string")
        call = Call(self, call_id)
        with self.changing:
            if call_id in self.under_way:
                raise RpcError(INVALID_REQUEST, "This id is already under way")
            if len(self.under_way) >= MAX_UNDER_WAY:
                raise RpcError(BUSY, f"{MAX_UNDER_WAY} documents are under way", {"retryable": True, "retryAfterMs": 1000})
            self.under_way[call_id] = call
        self.workers.submit(self.work, params, call)

    def cancel(self, call_id):
        with self.changing:
            call = self.under_way.get(call_id) if isinstance(call_id, (int, float, str)) else None
        if call:
            call.cancelled.set()

    def work(self, params, call):
        try:
            call.progress()
            outcome = {"result": self.read(params, call)}
        except Cancelled:
            outcome = None
        except RpcError as error:
            outcome = error
        except Exception as error:  # Whatever the document did to the extractor: the plugin goes on.
            print(f"{params['name']}: {type(error).__name__}: {error}", file=sys.stderr)
            outcome = RpcError(INTERNAL_ERROR, f"{params['name']} could not be read: {type(error).__name__}: {error}")
        with self.changing:
            del self.under_way[call.call_id]
        if isinstance(outcome, RpcError):
            self.fail(call.call_id, outcome)
        elif outcome and not call.cancelled.is_set():
            self.say({"id": call.call_id, **outcome})

    def read(self, params, call):
        text_path = os.path.join(params["outputDir"], f"text-{os.getpid()}-{id(call)}.txt")
        with open(text_path, "w", encoding="utf-8", errors="replace", newline="\n") as output:
            title = self.extract(params["path"], params["name"], output, call)
        result = {"title": title} if title else {}
        if os.path.getsize(text_path) > MAX_INLINE_BYTES:
            return {"textPath": text_path, **result}
        with open(text_path, encoding="utf-8") as written:
            result["text"] = written.read()
        os.remove(text_path)
        return result


def claim_stdout():
    """Keeps stdout for the protocol: whatever else is printed goes to stderr."""
    output = sys.stdout.buffer
    sys.stdout = sys.stderr
    return output


def serve_extractor(extract):
    """Runs `extract(path, name, output, call)`, which writes text to `output` and returns a title, until the gateway ends."""
    # Ctrl-C in a terminal reaches the whole group: the gateway then ends its plugins in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = Connection(extract).listen()
    except BrokenPipeError:
        code = 0
    # Work that is still under way has nobody left to answer.
    sys.stderr.flush()
    os._exit(code)
