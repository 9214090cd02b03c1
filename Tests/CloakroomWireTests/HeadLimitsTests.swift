import CloakroomWire
import TestSupport
import Testing

@Suite("Head limits")
struct HeadLimitsTests {
    private func read(_ text: String, _ limits: HeadLimits) -> MessageReader.Transcript {
        let bytes = Array(text.utf8)
        let whole = MessageReader.read(bytes, .requests, limits: limits)
        let single = MessageReader.read(bytes, .requests, limits: limits, cuts: Array(bytes.indices))
        expect(whole.messages, equals: single.messages)
        expect(whole.error, equals: single.error)
        return whole
    }

    /// Returns a request whose head has the given number of bytes.
    private func request(bytes count: Int) -> String {
        let empty = "GET / HTTP/1.1\r\nA: \r\n\r\n"
        return empty.replacing("A: ", with: "A: " + String(repeating: "b", count: count - empty.utf8.count))
    }

    @Test("A head may be exactly as large as the limit", arguments: [1_024, 1_025, 4_096])
    func headSize(limit: Int) {
        let limits = HeadLimits(head: limit)
        expect(read(request(bytes: limit), limits).messages.count, equals: 1)
        expect(read(request(bytes: limit + 1), limits).error, equals: .headTooLarge)
    }

    @Test("An endless head is rejected as soon as the limit is reached")
    func endlessHead() {
        let limits = HeadLimits(head: 1_024)
        for text in [
            "GET / HTTP/1.1\r\nA: " + String(repeating: "b", count: 1_004),
            "GET / HTTP/1.1\r\n" + String(repeating: "a", count: 1_007),
            "GET /" + String(repeating: "a", count: 1_018),
        ] {
            expect(read(text, limits).error, equals: nil)
            expect(read(text + "x", limits).error, equals: .headTooLarge)
        }
    }

    @Test("An error before the limit takes precedence over the limit")
    func orderOfErrors() {
        let text = "GET / HTTP/1.1\r\nA : " + String(repeating: "b", count: 2_000)
        expect(read(text, HeadLimits(head: 1_024)).error, equals: .fieldName)
    }

    @Test("The limit applies to each head separately")
    func pipelined() {
        let text = request(bytes: 1_024)
        expect(read(text + text + text, HeadLimits(head: 1_024)).messages.count, equals: 3)
    }

    @Test("Empty lines before a request are skipped up to the size limit of a head")
    func emptyLines() {
        let limits = HeadLimits(head: 1_024)
        let lines = String(repeating: "\r\n", count: 512)
        expect(read(lines + "GET / HTTP/1.1\r\n\r\n", limits).messages, equals: ["GET / 1.1 {}"])
        expect(read(lines + "\r\nGET / HTTP/1.1\r\n\r\n", limits).error, equals: .headTooLarge)
        let request = "GET / HTTP/1.1\r\n\r\n"
        expect(read(lines + request + lines + request, limits).messages.count, equals: 2)
    }

    @Test("A head may have exactly as many fields as the limit", arguments: [0, 1, 100])
    func fieldCount(limit: Int) {
        let limits = HeadLimits(fields: limit)
        func request(_ count: Int) -> String {
            "GET / HTTP/1.1\r\n" + String(repeating: "A: b\r\n", count: count) + "\r\n"
        }
        expect(read(request(limit), limits).messages.count, equals: 1)
        expect(read(request(limit + 1), limits).error, equals: .tooManyFields)
    }

    @Test("A target may be exactly as long as the limit")
    func targetLength() {
        let limits = HeadLimits(target: 64)
        func request(_ count: Int) -> String {
            "GET /" + String(repeating: "a", count: count - 1) + " HTTP/1.1\r\n\r\n"
        }
        expect(read(request(64), limits).messages.count, equals: 1)
        expect(read(request(65), limits).error, equals: .targetTooLong)
        expect(read(request(8_192), limits).error, equals: .targetTooLong)
    }

    @Test("A method may have at most 32 characters")
    func methodLength() {
        let method = String(repeating: "A", count: 32)
        expect(read("\(method) / HTTP/1.1\r\n\r\n", HeadLimits()).messages, equals: ["\(method) / 1.1 {}"])
        expect(read("\(method)A / HTTP/1.1\r\n\r\n", HeadLimits()).error, equals: .requestLine)
    }

    @Test("Offsets can represent the largest limit")
    func largest() {
        let limits = HeadLimits(head: 1_000_000, fields: 10, target: 1_000_000)
        expect(limits.head, equals: 65_535)
        let filler = String(repeating: "b", count: 65_000)
        let bytes = Array("GET / HTTP/1.1\r\nA: \(filler)\r\nLast: value\r\n\r\n".utf8)
        let transcript = MessageReader.read(bytes, .requests, limits: limits, cuts: [1, 30_000, 65_030])
        expect(transcript.messages, equals: ["GET / 1.1 {A=\(filler), Last=value}"])
        expect(HeadLimits(head: 1).head, equals: 1_024)
    }
}
