import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("DATA: length, padding and payload (RFC 9113 §6.1, §8.1.1)")
struct DataTests {
    private let test = TestConnection(open: 1)

    /// A connection with stream 1, whose body has a length.
    private static func expecting(_ length: Int) -> TestConnection {
        let test = TestConnection(open: 1)
        test.connection.expectBody(length, on: test.slot(1))
        return test
    }

    private static func texts(_ events: [SeenEvent]) -> String {
        events.map {
            switch $0 {
            case .data(_, let text, let end): end ? text + "." : text
            case .trailers: "T"
            case .closed(_, let code): code == .protocolError ? "!" : "?"
            default: "?"
            }
        }.joined()
    }

    @Test(
        "A body of five bytes has exactly five, and the frame that makes it wrong is not passed on",
        arguments: [
            (["abcde."], "abcde."), (["ab", "cde."], "abcde."), (["ab", "cde", "."], "abcde."),
            (["", "abcde."], "abcde."), (["abcde", "T"], "abcdeT"),
            (["abcdef"], "!"), (["abcdef."], "!"), (["abc", "def"], "abc!"), (["abcde", "f"], "abcde!"),
            (["abcd."], "!"), (["."], "!"), (["ab", "cd."], "ab!"), (["abcd", "."], "abcd!"),
            (["T"], "!"), (["abcd", "T"], "abcd!"),
        ])
    func length(_ parts: [String], _ expected: String) {
        let test = Self.expecting(5)
        var events: [SeenEvent] = []
        for part in parts {
            if part == "T" {
                events += test.send(test.headers(1, [("x-sum", "1")], end: true))
            } else {
                let end = part.hasSuffix(".")
                events += test.send(.data(1, String(end ? part.dropLast() : part[...]), end: end))
            }
        }
        expect(Self.texts(events), equals: expected)
        expect(test.output(), equals: expected.hasSuffix("!") ? [.reset(1, .protocolError)] : [])
    }

    @Test("A body whose length is declared as 0 is empty")
    func lengthZero() {
        expect(Self.texts(Self.expecting(0).send(.data(1, [], end: true))), equals: ".")
        expect(Self.texts(Self.expecting(0).send(.data(1, "a"))), equals: "!")
        let test = Self.expecting(0)
        expect(test.send(test.headers(1, [("a", "b")], end: true)), equals: [.trailers(1, ["a: b"])])
    }

    @Test("Padding does not count as body")
    func paddedLength() {
        let test = Self.expecting(3)
        expect(
            test.send(.data(1, [0x61], padding: 200), .data(1, [0x62, 0x63], end: true, padding: 0)),
            equals: [.data(1, "a", end: false), .data(1, "bc", end: true)])
        expect(test.output(), equals: [])
    }

    @Test("The length is checked when the frame begins, before its payload has arrived")
    func early() {
        let test = Self.expecting(5)
        let bytes = TestFrame.data(1, "abcdef").bytes
        expect(test.send(Array(bytes.prefix(9))), equals: [.closed(1, .protocolError)])
        expect(test.send(Array(bytes.dropFirst(9)) + TestFrame.ping().bytes), equals: [])
        expect(test.output(), equals: [.reset(1, .protocolError), .ping(acknowledgement: true)])
    }

    @Test("A length on a slot that is not open is ignored")
    func closedSlot() {
        let test = Self.expecting(5)
        test.connection.expectBody(1, on: -1)
        test.connection.expectBody(1, on: 99)
        test.send(.reset(1))
        test.connection.expectBody(1, on: 0)
        test.send(test.headers(3))
        expect(test.send(.data(3, "abc")), equals: [.data(3, "abc", end: false)])
    }

    // MARK: - Padding

    @Test(
        "RFC 9113 §6.1: padding up to the length of the frame is removed",
        arguments: [0, 1, 2, 254, 255])
    func padding(_ count: Int) {
        for end in [false, true] {
            let test = TestConnection(open: 1)
            expect(test.send(.data(1, [0x61, 0x62], end: end, padding: count)), equals: [.data(1, "ab", end: end)])
            let empty = test.send(.data(1, [], end: true, padding: count))
            expect(empty, equals: end ? [.closed(1, .streamClosed)] : [.data(1, "", end: true)])
        }
    }

    @Test("RFC 9113 §6.1: padding that does not fit into the frame ends the connection")
    func tooMuchPadding() {
        for (payload, code) in [
            ([], .frameSizeError), ([1], .protocolError), ([2, 0x61], .protocolError), ([255, 0x61], .protocolError),
        ] as [([UInt8], HTTP2ErrorCode)] {
            expect(TestConnection(open: 1).send(TestFrame(0, flags: 8, stream: 1, payload)), equals: [.failed(code)])
        }
    }

    // MARK: - Payload in parts

    @Test("The payload is passed on as it arrives; the end comes with the last byte of the frame, or with its padding")
    func parts() {
        let bytes = TestFrame.data(1, Array("abcd".utf8), end: true, padding: 2).bytes
        expect(test.send(Array(bytes[..<9])), equals: [])
        expect(test.send(Array(bytes[9..<10])), equals: [])
        expect(test.send(Array(bytes[10..<12])), equals: [.data(1, "ab", end: false)])
        expect(test.send(Array(bytes[12..<14])), equals: [.data(1, "cd", end: false)])
        expect(test.send(Array(bytes[14..<15])), equals: [])
        expect(test.send(Array(bytes[15...])), equals: [.data(1, "", end: true)])
        expect(test.input.readableBytes, equals: 0)
    }

    @Test("The rest of a frame is discarded when its stream ends meanwhile, also if the slot is used again")
    func reusedSlot() {
        let slot = test.slot(1)
        let bytes = TestFrame.data(1, "abcdef", end: true).bytes
        expect(test.send(Array(bytes.prefix(11))), equals: [.data(1, "ab", end: false)])
        test.connection.reset(slot, .cancel)
        let rest = Array(bytes.dropFirst(11))
        expect(test.send(Array(rest.prefix(2))), equals: [])
        expect(test.send(Array(rest.dropFirst(2)) + test.headers(3).bytes), equals: [.request(3, "GET /", end: false)])
        expect(test.slot(3), equals: slot)
        expect(test.send(.data(3, "x", end: true)), equals: [.data(3, "x", end: true)])
        expect(test.connection.receiveWindow + test.connection.unacknowledgedBytes + 1, equals: 65_535)
    }

    @Test("A frame on a stream that is closed is discarded to its end, with its padding")
    func discarded() {
        test.connection.reset(test.slot(1), .cancel)
        _ = test.output()
        let bytes = TestFrame.data(1, Array("PING".utf8), padding: 9).bytes
        for byte in bytes { expect(test.send([byte]), equals: []) }
        expect(test.send(.ping()), equals: [])
        expect(test.output(), equals: [.ping(acknowledgement: true)])
    }
}
