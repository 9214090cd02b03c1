import Foundation
import Glibc
import Synchronization

/// A collector in a child process that decodes requests with OpenTelemetry's published protobuf classes.
package final class OTLPReceiver: Sendable {
    /// The response to the n-th request; 200 after the last one.
    package enum Response {
        case status(Int, retryAfter: String? = nil)
        /// 200, with this number of spans rejected.
        case partial(rejected: Int)
        /// 200, after ``release()`` was called.
        case whenReleased
        /// 200 and the beginning of a body that never ends.
        case drips

        fileprivate var json: [String: Any] {
            switch self {
            case .status(let status, let retryAfter): ["status": status, "retry_after": retryAfter ?? ""]
            case .partial(let rejected): ["status": 200, "rejected": rejected]
            case .whenReleased: ["status": 200, "waits": true]
            case .drips: ["status": 200, "drips": true]
            }
        }
    }

    /// A decoded request.
    package struct Batch: Decodable, Sendable {
        /// Seconds of a monotonic clock.
        package let time: Double
        /// The request path.
        package let path: String
        /// The values by field name in lower case.
        package let headers: [String: String]
        /// The resource attributes: each value with its protobuf type.
        package let resource: [String: String]
        /// The name and version of the instrumentation scope.
        package let scope: String
        /// The spans in the order of the request.
        package let spans: [Span]
    }

    /// A decoded span: ids in hexadecimal digits, times in nanoseconds since 1970.
    package struct Span: Decodable, Sendable, Equatable {
        package let name: String
        package let kind: String
        package let traceID: String
        package let spanID: String
        package let parentID: String
        package let traceState: String
        package let flags: Int
        package let start: UInt64
        package let end: UInt64
        /// Each value with its protobuf type.
        package let attributes: [String: String]
        package let status: String
        package let events: [String]
        package let links: [String]
        package let dropped: [Int]

        /// Creates an expected span.
        package init(
            name: String, kind: String, traceID: String, spanID: String, parentID: String, traceState: String,
            flags: Int, start: UInt64, end: UInt64, attributes: [String: String], status: String, events: [String],
            links: [String], dropped: [Int]
        ) {
            self.name = name
            self.kind = kind
            self.traceID = traceID
            self.spanID = spanID
            self.parentID = parentID
            self.traceState = traceState
            self.flags = flags
            self.start = start
            self.end = end
            self.attributes = attributes
            self.status = status
            self.events = events
            self.links = links
            self.dropped = dropped
        }
    }

    private struct Beginning: Decodable { let port: Int }

    /// The port on 127.0.0.1.
    package let port: Int
    private let process: ChildProcess
    private let input: Pipe
    /// Read in the background as long as it exists.
    private let pipe: Pipe
    private let output: Lines

    private final class Lines: Sendable {
        private let bytes = Mutex<[UInt8]>([])

        func append(_ data: Data) { bytes.withLock { $0.append(contentsOf: data) } }

        var all: [Data] {
            let bytes = bytes.withLock { $0 }
            guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return [] }
            return bytes[..<end].split(separator: UInt8(ascii: "\n")).map { Data($0) }
        }
    }

    private init(_ responses: [Response], port: Int) async throws {
        let json = try JSONSerialization.data(withJSONObject: responses.map(\.json))
        let (input, pipe, output) = (Pipe(), Pipe(), Lines())
        process = try ChildProcess(
            "python3", ["-c", Self.script, "\(port)", String(decoding: json, as: UTF8.self)],
            input: .descriptor(input.fileHandleForReading.fileDescriptor),
            output: .descriptor(pipe.fileHandleForWriting.fileDescriptor), errors: .descriptor(STDERR_FILENO))
        try input.fileHandleForReading.close()
        try pipe.fileHandleForWriting.close()
        pipe.fileHandleForReading.readabilityHandler = { handle in
            let data = handle.availableData
            if data.isEmpty { handle.readabilityHandler = nil } else { output.append(data) }
        }
        (self.input, self.pipe, self.output) = (input, pipe, output)
        try await eventually("the receiver listens; is PyPI's opentelemetry-proto installed?") { !output.all.isEmpty }
        self.port = try JSONDecoder().decode(Beginning.self, from: output.all.first ?? Data()).port
    }

    /// Runs a receiver while `body` runs.
    package static func run<R>(
        _ responses: [Response] = [], port: Int = 0, _ body: (OTLPReceiver) async throws -> R
    ) async throws -> R {
        let receiver = try await OTLPReceiver(responses, port: port)
        return try await stopping {
            await receiver.stop()
        } after: {
            try await body(receiver)
        }
    }

    /// Terminates the process and waits until it has exited, so that its port is free.
    private func stop() async {
        process.signal(SIGKILL)
        await process.ends()
    }

    /// Lets one waiting request continue.
    package func release() throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
    }

    /// The batches received so far.
    package var batches: [Batch] {
        get throws { try output.all.dropFirst().map { try JSONDecoder().decode(Batch.self, from: $0) } }
    }

    /// Waits for a number of requests, and returns all received so far.
    package func receives(requests count: Int) async throws -> [Batch] {
        try await eventually("\(count) requests") { try self.batches.count >= count }
        return try batches
    }

    private static let script = """
        import json, signal, sys, threading, time
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
        from opentelemetry.proto.trace.v1 import trace_pb2 as trace

        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.alarm(300)
        answers = json.loads(sys.argv[2])
        lock = threading.Lock()

        def value(any):
            kind = any.WhichOneof("value")
            if kind == "array_value":
                return "[" + ", ".join(value(one) for one in any.array_value.values) + "]"
            if kind is None:
                return "nothing"
            return kind.removesuffix("_value") + " " + str(getattr(any, kind))

        def attributes(pairs):
            names = [pair.key for pair in pairs]
            assert len(names) == len(set(names)), names
            return {pair.key: value(pair.value) for pair in pairs}

        def span(s):
            return {
                "name": s.name, "kind": trace.Span.SpanKind.Name(s.kind).removeprefix("SPAN_KIND_").lower(),
                "traceID": s.trace_id.hex(), "spanID": s.span_id.hex(), "parentID": s.parent_span_id.hex(),
                "traceState": s.trace_state, "flags": s.flags,
                "start": s.start_time_unix_nano, "end": s.end_time_unix_nano,
                "attributes": attributes(s.attributes),
                "status": trace.Status.StatusCode.Name(s.status.code).removeprefix("STATUS_CODE_").lower()
                    + s.status.message,
                "events": [f"{e.name} {e.time_unix_nano} {attributes(e.attributes)}" for e in s.events],
                "links": [f"{l.trace_id.hex()}-{l.span_id.hex()}-{l.flags}" for l in s.links],
                "dropped": [s.dropped_attributes_count, s.dropped_events_count, s.dropped_links_count],
            }

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = service.ExportTraceServiceRequest()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                [resource] = request.resource_spans
                [scope] = resource.scope_spans
                with lock:
                    answer = answers.pop(0) if answers else {"status": 200}
                    print(json.dumps({
                        "time": time.monotonic(), "path": self.path,
                        "headers": {name.lower(): text for name, text in self.headers.items()},
                        "resource": attributes(resource.resource.attributes),
                        "scope": scope.scope.name + " " + scope.scope.version,
                        "spans": [span(s) for s in scope.spans],
                    }), flush=True)
                if answer.get("waits"):
                    sys.stdin.readline()
                response = service.ExportTraceServiceResponse()
                if answer.get("rejected"):
                    response.partial_success.error_message = "some are too old"
                    response.partial_success.rejected_spans = answer["rejected"]
                body = response.SerializeToString()
                self.send_response(answer["status"])
                self.send_header("Content-Type", "application/x-protobuf")
                if answer.get("retry_after"):
                    self.send_header("Retry-After", answer["retry_after"])
                self.send_header("Content-Length", str(100 if answer.get("drips") else len(body)))
                self.end_headers()
                self.wfile.write(body)
                if answer.get("drips"):
                    self.wfile.flush()
                    threading.Event().wait()

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
        server.daemon_threads = True
        print(json.dumps({"port": server.server_address[1]}), flush=True)
        server.serve_forever()
        """
}

extension [OTLPReceiver.Batch] {
    /// The names of the spans of all batches.
    package var names: [String] { flatMap { $0.spans.map(\.name) } }
}
