import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The beginning of a connection, and SETTINGS")
struct PrefaceAndSettingsTests {
    private let test = TestConnection(isEstablished: false)

    @Test("RFC 9113 §3.4: the server's SETTINGS come first, before any input")
    func serverSettings() throws {
        let test = TestConnection(streams: 100, initialStreamWindow: 32_768, isEstablished: false)
        let frames = test.output()
        let first = try require(frames.first)
        expect(frames.count, equals: 1)
        expect(first.type, equals: 4)
        expect(first.flags, equals: 0)
        expect(first.stream, equals: 0)
        let entries = stride(from: 0, to: first.payload.count, by: 6).map { start in
            [
                TestFrame.number(first.payload[start..<(start + 2)]),
                TestFrame.number(first.payload[(start + 2)..<(start + 6)]),
            ]
        }
        let limits = TestConnection.limits
        expect(
            entries,
            equals: [
                [3, 100], [4, 32_768], [6, UInt32(limits.head + limits.fields * 32)], [8, 1], [9, 1],
            ])
    }

    @Test(
        "The number of concurrent streams that is announced is clamped", arguments: [(0, 1), (-1, 1), (40_000, 32_767)])
    func clamped(streams: Int, announced: Int) {
        let test = TestConnection(streams: streams, isEstablished: false)
        let payload = test.output().first?.payload ?? []
        expect(TestFrame.number(payload.dropFirst(2).prefix(4)), equals: UInt32(announced))
    }

    @Test("The preface and the client's first SETTINGS are received and acknowledged once")
    func establishment() {
        _ = test.output()
        expect(test.send(TestFrame.preface), equals: [])
        expect(test.output(), equals: [])
        expect(test.send(.settings()), equals: [.settingsReceived])
        expect(test.output(), equals: [.settingsAcknowledgement])
        expect(test.send(.settings()), equals: [])
        expect(test.output(), equals: [.settingsAcknowledgement])
    }

    @Test("RFC 9113 §3.4: any other byte in the preface ends the connection", arguments: 0..<24)
    func wrongPreface(_ index: Int) {
        _ = test.output()
        var bytes = TestFrame.preface
        bytes[index] ^= 0x20
        expect(test.send(bytes), equals: [.failed(.protocolError)])
        expect(test.output(), equals: [.goAway(last: 0, .protocolError)])
    }

    @Test("An HTTP/1.1 request is no preface")
    func otherProtocol() {
        expect(test.send(Array("GET / HTTP/1.1\r\n\r\n".utf8)), equals: [.failed(.protocolError)])
        expect(test.input.readableBytes, equals: 0)
    }

    @Test(
        "RFC 9113 §3.4: the first frame is SETTINGS and no acknowledgement",
        arguments: [
            TestFrame.ping(), .settingsAcknowledgement, .windowUpdate(0, 100),
            TestFrame(1, flags: 5, stream: 1, [0x82]),
            TestFrame(0xb), .data(1, "a"),
        ])
    func firstFrame(_ frame: TestFrame) {
        expect(
            TestConnection(isEstablished: false).send(TestFrame.preface + frame.bytes),
            equals: [.failed(.protocolError)])
    }

    @Test("After a failure nothing more is handled, and no second GOAWAY is written")
    func silence() {
        let test = TestConnection()
        expect(test.send([.ping(), TestFrame(5, stream: 1), .ping()]), equals: [.failed(.protocolError)])
        expect(test.output(), equals: [.ping(acknowledgement: true), .goAway(last: 0, .protocolError)])
        expect(test.send([.ping(), test.headers(1, end: true)]), equals: [])
        expect(test.output(), equals: [])
        expect(test.input.readableBytes, equals: 0)
    }

    @Test(
        "RFC 9113 §6.5: SETTINGS of a wrong size, on a stream, or with an acknowledgement that has content",
        arguments: [
            (TestFrame(4, [0]), HTTP2ErrorCode.frameSizeError),
            (TestFrame(4, [UInt8](repeating: 0, count: 7)), .frameSizeError),
            (TestFrame(4, flags: 1, [UInt8](repeating: 0, count: 6)), .frameSizeError),
            (TestFrame(4, stream: 1), .protocolError),
            (TestFrame(4, flags: 1, stream: 1), .protocolError),
            (TestFrame(4, stream: 2, [0]), .protocolError),
        ])
    func settingsFrame(_ frame: TestFrame, _ code: HTTP2ErrorCode) {
        let test = TestConnection()
        expect(test.send(frame), equals: [.failed(code)])
        expect(test.output(), equals: [.goAway(last: 0, code)])
    }

    @Test(
        "RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1: values of settings",
        arguments: [
            (1, 0, nil), (1, 4_096, nil), (1, .max, nil),
            (2, 0, nil), (2, 1, nil), (2, 2, .protocolError), (2, .max, .protocolError),
            (3, 0, nil), (3, .max, nil),
            (4, 0, nil), (4, 0x7fff_ffff, nil), (4, 0x8000_0000, .flowControlError), (4, .max, .flowControlError),
            (5, 16_383, .protocolError), (5, 16_384, nil), (5, 0xff_ffff, nil), (5, 0x100_0000, .protocolError),
            (5, 0, .protocolError),
            (6, 0, nil), (6, .max, nil),
            (8, 0, nil), (8, 1, nil), (8, 2, .protocolError),
            (9, 0, nil), (9, 1, nil), (9, 2, .protocolError),
            (0, .max, nil), (7, .max, nil), (0xffff, .max, nil),
        ] as [(UInt16, UInt32, HTTP2ErrorCode?)])
    func value(_ parameter: UInt16, _ value: UInt32, _ error: HTTP2ErrorCode?) {
        let test = TestConnection()
        let events = test.send(.settings([parameter: value]))
        if let error {
            expect(events, equals: [.failed(error)])
            expect(test.output(), equals: [.goAway(last: 0, error)])
        } else {
            expect(events, equals: [])
            expect(test.output(), equals: [.settingsAcknowledgement])
        }
        // The same in the first SETTINGS.
        let first = TestConnection(isEstablished: false)
        expect(
            first.send(TestFrame.preface + TestFrame.settings([parameter: value]).bytes),
            equals: [error.map { .failed($0) } ?? .settingsReceived])
    }

    @Test("RFC 9113 §6.5.3: values are applied in order, up to the first that is invalid")
    func order() {
        let test = TestConnection(open: 1)
        expect(test.send(.settings([4: 100, 4: 200, 0x1234: 5, 4: 300])), equals: [])
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 300)
        expect(test.send(.settings([4: 100, 2: 9, 4: 7])), equals: [.failed(.protocolError)])
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 100)
    }

    @Test("The first SETTINGS determine the send window of streams; an empty frame changes nothing")
    func initialWindow() {
        test.send(TestFrame.preface + TestFrame.settings([4: 5]).bytes)
        test.open(1)
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 5)
        test.send(.settings())
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 5)
        // The window of the connection is not a setting.
        expect(test.connection.sendWindow, equals: 65_535)
    }
}
