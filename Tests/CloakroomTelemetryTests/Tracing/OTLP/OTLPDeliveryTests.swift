import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomTelemetry

@Suite("Span export to a collector")
struct OTLPDeliveryTests {
    @Test("Requests conform to OTLP, and contain the configured fields")
    func request() async throws {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port) {
                $0.headers = [("X-Key", "k3y"), ("content-type", "text/plain")].map {
                    .init(name: $0, value: Secret($1))
                }
            }
            tested.export("a")
            let batch = try await require(tested.run { try await receiver.receives(requests: 1) }.first)
            expect(batch.path, equals: "/v1/traces")
            expect(batch.headers["content-type"], equals: "application/x-protobuf")
            expect(batch.headers["user-agent"], equals: "cloakroom/1.2.3")
            expect(batch.headers["x-key"], equals: "k3y")
            expect(batch.headers["traceparent"], equals: nil)
            expect(batch.headers["transfer-encoding"], equals: nil)
        }
    }

    @Test("A batch is sent as soon as it is full, and never exceeds its limit")
    func batches() async throws {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port) {
                $0.interval = .seconds(3_600)
                $0.queueLimit = 100
            }
            tested.export(10)
            try await tested.run { () async throws in
                try await expect(receiver.receives(requests: 2).sizes, equals: [4, 4])
                tested.export("last", "but one")
                try await expect(receiver.receives(requests: 3).sizes, equals: [4, 4, 4])
            }
            expect(tested.dropped.value, equals: 0)
        }
    }

    @Test("A batch that is not full is sent after its interval")
    func interval() async throws {
        try await OTLPReceiver.run { receiver in
            let tested = ExporterFixture(port: receiver.port)
            try await tested.run { () async throws in
                tested.export("a")
                try await expect(receiver.receives(requests: 1).names, equals: ["a"])
                tested.export("b")
                try await expect(receiver.receives(requests: 2).names, equals: ["a", "b"])
            }
        }
    }

    @Test("A batch is sent again after each retryable status", arguments: [429, 502, 503, 504])
    func retried(status: Int) async throws {
        try await OTLPReceiver.run([.status(status), .status(status)]) { receiver in
            let tested = ExporterFixture(port: receiver.port)
            tested.export("a", "b")
            let batches = try await tested.run { try await receiver.receives(requests: 3) }
            expect(batches.map { $0.spans.map(\.name) }, equals: [["a", "b"], ["a", "b"], ["a", "b"]])
            expect(tested.dropped.value, equals: 0)
            // Repeated failures of the same kind log one line.
            expect(tested.log.lines("reason", "\(status)").count, equals: 1)
        }
    }

    @Test("A collector that sends Retry-After gets no earlier request")
    func retryAfter() async throws {
        try await OTLPReceiver.run([.status(503, retryAfter: "1")]) { receiver in
            let tested = ExporterFixture(port: receiver.port)
            tested.export("a")
            let times = try await tested.run { try await receiver.receives(requests: 2).map(\.time) }
            #expect(times[1] - times[0] >= 0.99)
        }
    }

    @Test(
        "Any other status is final: the batch is dropped and counted",
        arguments: [400, 401, 500, 301])
    func rejected(status: Int) async throws {
        try await OTLPReceiver.run([.status(status)]) { receiver in
            let tested = ExporterFixture(port: receiver.port) {
                $0.headers = [.init(name: "Authorization", value: Secret("Bearer k3y"))]
            }
            tested.export("a", "b", "c")
            try await tested.run { () async throws in
                try await eventually("the batch is dropped") { tested.dropped.value == 3 }
                tested.export("d")
                try await expect(receiver.receives(requests: 2).names, equals: ["a", "b", "c", "d"])
            }
            expect(tested.dropped.value, equals: 3)
            expect(tested.log.lines("reason", "\(status)").map { $0["count"] }, equals: ["3"])
            expect(!"\(tested.log.all)".contains("k3y"))
        }
    }

    @Test("Spans that a collector rejects from an accepted batch are counted")
    func partialSuccess() async throws {
        try await OTLPReceiver.run([.partial(rejected: 2), .partial(rejected: 99)]) { receiver in
            let tested = ExporterFixture(port: receiver.port)
            try await tested.run { () async throws in
                tested.export("a", "b", "c")
                try await eventually("two are counted") { tested.dropped.value == 2 }
                tested.export("d")
                // At most the number of spans in the batch, whatever the collector reports.
                try await eventually("one is counted") { tested.dropped.value == 3 }
            }
            try await expect(receiver.receives(requests: 2).names, equals: ["a", "b", "c", "d"])
        }
    }

    @Test("A request without a response in time is retried")
    func slow() async throws {
        try await OTLPReceiver.run([.whenReleased]) { receiver in
            let tested = ExporterFixture(port: receiver.port) { $0.timeout = .seconds(4) }
            tested.export("a")
            try await tested.run { () async throws in
                try await expect(receiver.receives(requests: 2).names, equals: ["a", "a"])
            }
            expect(tested.dropped.value, equals: 0)
            expect(tested.log.lines("reason", "timeout").count, equals: 1)
        }
    }

    @Test("An accepted batch is not sent again if the body of the response does not arrive in time")
    func drips() async throws {
        try await OTLPReceiver.run([.drips]) { receiver in
            let tested = ExporterFixture(port: receiver.port) { $0.timeout = .seconds(4) }
            tested.export("a")
            try await tested.run { () async throws in
                _ = try await receiver.receives(requests: 1)
                tested.export("b")
                // One batch at a time: the second is sent only after the first has completed.
                try await expect(receiver.receives(requests: 2).names, equals: ["a", "b"])
            }
            try await expect(receiver.receives(requests: 2).names, equals: ["a", "b"])
            expect(tested.dropped.value, equals: 0)
            expect(empty: tested.log.lines("reason", "timeout"))
        }
    }

    @Test("With a hanging collector no export blocks, the queue stays within its limit, and each drop is counted")
    func hanging() async throws {
        try await OTLPReceiver.run([.whenReleased]) { receiver in
            let tested = ExporterFixture(port: receiver.port)
            try await tested.run { () async throws in
                tested.export(4)
                _ = try await receiver.receives(requests: 1)
                // The collector sends no response before it is released, so a return from here did not wait for it.
                tested.export(20_000)
                expect(tested.exporter.waitingCount, equals: 8)
                expect(tested.dropped.value, equals: 19_992)
                try receiver.release()
                let batches = try await receiver.receives(requests: 3)
                expect(batches.names, equals: (0..<4).map { "\($0)" } + (0..<8).map { "\($0)" })
                tested.export("afterwards")
                try await expect(receiver.receives(requests: 4).names.last, equals: "afterwards")
            }
            expect(tested.dropped.value, equals: 19_992)
            expect(tested.exporter.waitingCount, equals: 0)
        }
    }

    @Test("After an outage a collector gets all spans that fitted into the queue")
    func away() async throws {
        let port = try FreePort.next()
        let tested = ExporterFixture(port: port)
        try await tested.run { () async throws in
            tested.export(4)
            try await eventually("the first batch is being sent") { tested.exporter.waitingCount == 0 }
            tested.export(10)
            try await eventually("the failure is logged once") { tested.log.lines("reason", "connection").count == 1 }
            expect(tested.exporter.waitingCount, equals: 8)
            expect(tested.dropped.value, equals: 2)
            try await OTLPReceiver.run(port: port) { receiver async throws in
                try await expect(receiver.receives(requests: 3).names.count, equals: 12)
            }
        }
        expect(tested.dropped.value, equals: 2)
    }

    @Test("A batch is dropped after the maximum number of attempts")
    func attempts() async throws {
        try await OTLPReceiver.run([.status(503), .status(503), .status(503)]) { receiver in
            let tested = ExporterFixture(
                port: receiver.port, backOff: ExportRetryPolicy(first: .milliseconds(1), attempts: 3))
            try await tested.run { () async throws in
                tested.export("a", "b")
                try await eventually("the batch is dropped") { tested.dropped.value == 2 }
                tested.export("c")
                try await expect(receiver.receives(requests: 4).names, equals: ["a", "b", "a", "b", "a", "b", "c"])
            }
        }
    }

    @Test("An endpoint that is not a URL drops spans and logs the problem")
    func badEndpoint() async throws {
        let tested = ExporterFixture(port: 0) { $0.endpoint = "collector" }
        try await tested.run { () async throws in
            tested.export("a")
            try await eventually("the span is dropped") { tested.dropped.value == 1 }
        }
        expect(tested.log.lines("reason", "configuration").count, equals: 1)
    }
}
