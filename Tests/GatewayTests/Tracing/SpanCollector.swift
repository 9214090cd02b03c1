import Foundation

/// A collector that says what the spans are called which it is sent, one line each. What else stands in them is tested
/// with the exporter itself.
enum SpanCollector {
    static func running<R>(body: (_ collector: ChildProgram, _ port: Int) async throws -> R) async throws -> R {
        let python = try Executables.onPath("python3", package: "python3")
        return try await ChildProgram.running(python, ["-c", script]) { program in
            let port = try await program.waits(for: "the collector listens; is PyPI's opentelemetry-proto there?") {
                $0.lines.first.flatMap { Int($0) }
            }
            return try await body(program, port)
        }
    }

    private static let script = """
        import signal
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        signal.alarm(300)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = ExportTraceServiceRequest()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            print(span.name, flush=True)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_address[1], flush=True)
        server.serve_forever()
        """
}
