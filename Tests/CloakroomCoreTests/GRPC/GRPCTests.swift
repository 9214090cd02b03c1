import CloakroomCore
import TestSupport
import Testing

@Suite("gRPC: deadlines, statuses and media types")
struct GRPCTests {
    @Test(
        "A timeout is 1 to 8 digits and a unit",
        arguments: [
            ("1H", 3_600_000_000_000), ("2M", 120_000_000_000), ("30S", 30_000_000_000), ("250m", 250_000_000),
            ("7u", 7_000), ("99999999n", 99_999_999), ("0S", 0), ("99999999H", UInt64.max / 2),
        ] as [(String, UInt64)])
    func timeout(text: String, nanoseconds: UInt64) {
        expect(GRPCTimeout.nanoseconds(Array(text.utf8).span), equals: nanoseconds)
    }

    @Test(
        "Other values are no timeouts",
        arguments: ["", "S", "1", "1s", "1h", "123456789S", "-1S", "1.5S", " 1S", "1S ", "aS"])
    func malformedTimeout(text: String) {
        expect(GRPCTimeout.nanoseconds(Array(text.utf8).span), equals: nil)
    }

    @Test(
        "The status of a local response follows from the HTTP status",
        arguments: [
            (401, 16), (403, 7), (404, 12), (429, 8), (503, 14), (504, 4), (502, 14), (400, 13), (413, 8), (500, 2),
        ])
    func status(http: Int, grpc: Int) {
        expect(GRPCStatus(httpStatus: http).rawValue, equals: grpc)
    }

    @Test("The message of a response is percent-encoded, so that it cannot add fields")
    func message() {
        let lines = String(
            decoding: GRPCStatus.unavailable.trailersOnlyLines(message: "50% \u{e9}\r\nx: y"), as: UTF8.self)
        expect(
            lines,
            equals: "Content-Type: application/grpc\r\ngrpc-status: 14\r\ngrpc-message: 50%25 %C3%A9%0D%0Ax: y\r\n")
    }

    @Test(
        "The media type is recognized with a suffix and parameters, and nothing longer",
        arguments: [
            ("application/grpc", true), ("Application/gRPC+proto", true), ("application/grpc;a=b", true),
            ("application/grpc-web", false), ("application/json", false), ("", false),
        ])
    func mediaType(text: String, matches: Bool) {
        expect(GRPCContentType.matches(Array(text.utf8).span), equals: matches)
    }

    @Test(
        "A status in a field is 0 to 16",
        arguments: [("0", 0), ("14", 14), ("16", 16), ("17", nil), ("", nil), ("-1", nil), ("014", nil)]
            as [(String, Int?)])
    func field(text: String, status: Int?) {
        expect(GRPCStatus(Array(text.utf8).span)?.rawValue, equals: status)
    }
}

@Suite("gRPC: messages of health checks")
struct GRPCHealthTests {
    @Test("A request is one message with the name of the service")
    func request() {
        expect(GRPCHealth.request(service: ""), equals: [0, 0, 0, 0, 0])
        expect(GRPCHealth.request(service: "a.B"), equals: [0, 0, 0, 0, 5, 0x0a, 3, 0x61, 0x2e, 0x42])
        let long = GRPCHealth.request(service: String(repeating: "a", count: 200))
        expect(Array(long[..<8]), equals: [0, 0, 0, 0, 203, 0x0a, 0xc8, 0x01])
        expect(long.count, equals: 208)
    }

    @Test(
        "The status of a response; unknown fields are skipped",
        arguments: [
            ([0, 0, 0, 0, 2, 8, 1], .serving), ([0, 0, 0, 0, 2, 8, 2], .notServing), ([0, 0, 0, 0, 0], .unknown),
            ([0, 0, 0, 0, 6, 0x12, 2, 1, 2, 8, 1], .serving), ([0, 0, 0, 0, 3, 8, 0x81, 0], .serving),
        ] as [([UInt8], GRPCHealth.Status)])
    func status(body: [UInt8], status: GRPCHealth.Status) {
        expect(GRPCHealth.status(ofBody: body.span), equals: status)
    }

    @Test(
        "Other bodies have no status",
        arguments: [
            [], [0, 0, 0, 0], [1, 0, 0, 0, 2, 8, 1], [0, 0, 0, 0, 3, 8, 1], [0, 0, 0, 0, 1, 8, 1],
            [0, 0, 0, 0, 2, 8, 9],
            [0, 0, 0, 0, 1, 8], [0, 0, 0, 0, 2, 0x12, 0xff], [0, 0, 0, 0, 1, 0x0b], [0, 0, 0, 0, 2, 8, 0x80],
            [0, 255, 255, 255, 255, 8, 1], [0, 0, 0, 0, 2, 0x09, 1],
            [0, 0, 0, 0, 12, 8] + [UInt8](repeating: 0xff, count: 11),
            [0, 0, 0, 0, 11, 0x12] + [UInt8](repeating: 0xff, count: 9) + [0x01],
        ] as [[UInt8]])
    func malformed(body: [UInt8]) {
        expect(GRPCHealth.status(ofBody: body.span), equals: nil)
    }
}
