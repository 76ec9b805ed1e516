"""Receives OTLP over HTTP, as a collector does, with the messages of the OpenTelemetry project for Python.

It prints its address, then each span as a line of JSON, and ends when its input ends.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

lock = threading.Lock()


def tell(value):
    with lock:
        print(json.dumps(value), flush=True)


def attributes(listed):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in listed}


def spans(body):
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                tell({
                    "span": span.name,
                    "kind": Span.SpanKind.Name(span.kind),
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "attributes": attributes(span.attributes),
                })
    return ExportTraceServiceResponse()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = spans(body).SerializeToString()
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
tell({"address": f"http://127.0.0.1:{server.server_port}"})
sys.stdin.read()
os._exit(0)
