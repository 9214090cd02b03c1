import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("PING, GOAWAY, PRIORITY, RST_STREAM, PUSH_PROMISE and unknown frames")
struct ControlFrameTests {
    private let test = TestConnection(open: 1)

    @Test("RFC 9113 §6.7: a PING is acknowledged with its content")
    func ping() {
        let test = TestConnection()
        expect(test.send(.ping(0x0102_0304_0506_0708)), equals: [])
        expect(test.output(), equals: [.ping(0x0102_0304_0506_0708, acknowledgement: true)])
        // Other flags have no meaning.
        var frame = TestFrame.ping(9)
        frame.flags = 0xfe
        expect(test.send(frame), equals: [])
        expect(test.output(), equals: [.ping(9, acknowledgement: true)])
    }

    @Test("An acknowledgement of a PING gets no response; only that of the shutdown's PING is an event")
    func pingAcknowledgement() {
        let test = TestConnection()
        expect(test.send(.ping(1, acknowledgement: true)), equals: [])
        expect(test.send(.ping(1 << 32, acknowledgement: true)), equals: [])
        expect(test.output(), equals: [])
        test.connection.announceShutdown()
        expect(test.output(), equals: [.goAway(last: 0x7fff_ffff, .noError), .ping(0)])
        expect(test.send(.ping(1, acknowledgement: true)), equals: [])
        expect(test.send(.ping(0, acknowledgement: true)), equals: [.shutdownAcknowledged])
        expect(test.output(), equals: [])
    }

    @Test(
        "Control frames of a wrong size or on a wrong stream end the connection",
        arguments: [
            (TestFrame(6, [0, 0, 0, 0, 0, 0, 0]), HTTP2ErrorCode.frameSizeError),
            (TestFrame(6, []), .frameSizeError),
            (TestFrame(6, [UInt8](repeating: 0, count: 9)), .frameSizeError),
            (TestFrame(6, flags: 1, [0]), .frameSizeError),
            (TestFrame(6, stream: 1, [UInt8](repeating: 0, count: 8)), .protocolError),
            (TestFrame(7, [UInt8](repeating: 0, count: 7)), .frameSizeError),
            (TestFrame(7, []), .frameSizeError),
            (TestFrame(7, stream: 1, [UInt8](repeating: 0, count: 8)), .protocolError),
            (TestFrame(3, stream: 1, [0, 0, 0]), .frameSizeError),
            (TestFrame(3, stream: 1, [0, 0, 0, 0, 0]), .frameSizeError),
            (TestFrame(3, stream: 0, [0, 0, 0, 8]), .protocolError),
            (TestFrame(8, stream: 0, [0, 0, 0]), .frameSizeError),
            (TestFrame(8, stream: 1, [0, 0, 0, 1, 0]), .frameSizeError),
            (TestFrame(2, stream: 0, [0, 0, 0, 0, 0]), .protocolError),
            (TestFrame(1, flags: 5, stream: 0, [0x82]), .protocolError),
            (TestFrame(1, flags: 5, stream: 4, [0x82]), .protocolError),
            (TestFrame(0, stream: 0, [1]), .protocolError),
            (TestFrame(0, stream: 2, [1]), .protocolError),
            (TestFrame(9, stream: 0, [1]), .protocolError),
            (TestFrame(9, flags: 4, stream: 1, [1]), .protocolError),
            (TestFrame(5, flags: 4, stream: 1, [0, 0, 0, 2, 0x82]), .protocolError),
            (TestFrame(5, stream: 0, []), .protocolError),
        ])
    func wrongFrame(_ frame: TestFrame, _ code: HTTP2ErrorCode) {
        expect(test.send(frame), equals: [.failed(code)])
        expect(test.output(), equals: [.goAway(last: 1, code)])
    }

    @Test(
        "RFC 9113 §4.2: a payload above 16,384 bytes ends the connection, whatever its type, before it is received",
        arguments: Array(0...10) as [UInt8])
    func oversizedFrame(_ type: UInt8) {
        var frame = TestFrame(type, stream: type == 4 || type == 6 || type == 7 ? 0 : 1)
        frame.declaredLength = 16_385
        expect(test.send(frame), equals: [.failed(.frameSizeError)])
    }

    @Test("RFC 9113 §4.2: a payload of 16,384 bytes is handled")
    func largestFrame() {
        expect(test.send(.data(1, count: 16_384)).count, equals: 1)
        expect(test.send(TestFrame(0xee, [UInt8](repeating: 1, count: 16_384))), equals: [])
        expect(test.output(), equals: [])
    }

    @Test("RFC 9113 §6.8: a GOAWAY of the client is an event, and open streams continue")
    func goAway() {
        expect(test.send(.goAway(last: 0, .noError)), equals: [.goAwayReceived])
        expect(
            test.send(TestFrame(7, TestFrame.number(0) + TestFrame.number(11) + Array("debug".utf8))),
            equals: [
                .goAwayReceived
            ])
        expect(test.send(.data(1, "a", end: true)), equals: [.data(1, "a", end: true)])
        expect(test.output(), equals: [])
    }

    @Test("RFC 9113 §5.5: unknown frames and flags are ignored, also on streams that do not exist")
    func unknown() {
        expect(test.send([TestFrame(10, stream: 0, [1, 2]), TestFrame(0xff, flags: 0xff, stream: 9, [])]), equals: [])
        expect(test.send(TestFrame(16, stream: 0, TestFrame.number(1) + Array("u=1".utf8))), equals: [])
        var data = TestFrame.data(1, "a")
        data.flags = 0xf6
        expect(test.send(data), equals: [.data(1, "a", end: false)])
        expect(test.output(), equals: [])
    }

    @Test("RFC 9113 §5.3.2, §6.3: PRIORITY is permitted on streams of every state, and has no effect")
    func priority() {
        test.send(test.headers(3, end: true), .reset(3))
        expect(test.send([.priority(1), .priority(3), .priority(5), .priority(99, on: 1), .priority(2)]), equals: [])
        expect(test.send(test.headers(5, end: true)), equals: [.request(5, "GET /", end: true)])
        expect(test.output(), equals: [])
    }

    @Test(
        "RFC 9113 §6.3: a PRIORITY of a wrong size resets its stream, or ends the connection without one",
        arguments: [0, 4, 6])
    func prioritySize(_ count: Int) {
        let payload = [UInt8](repeating: 0, count: count)
        expect(test.send(TestFrame(2, stream: 1, payload)), equals: [.closed(1, .frameSizeError)])
        expect(test.output(), equals: [.reset(1, .frameSizeError)])
        expect(test.send(TestFrame(2, stream: 3, payload)), equals: [.failed(.frameSizeError)])
    }

    @Test("A stream that depends on itself is reset, by PRIORITY and by HEADERS")
    func selfDependency() {
        expect(test.send(.priority(1, on: 1)), equals: [.closed(1, .protocolError)])
        expect(test.output(), equals: [.reset(1, .protocolError)])
        let dependency = TestFrame.number(3) + [0]
        expect(
            test.send(TestFrame(1, flags: 0x25, stream: 3, dependency + test.block(TestConnection.get))),
            equals: [.malformed]
        )
        expect(test.output(), equals: [.reset(3, .protocolError)])
        // The exclusive bit does not belong to the stream.
        let exclusive = TestFrame.number(5 | 1 << 31) + [0]
        expect(
            test.send(TestFrame(1, flags: 0x25, stream: 5, exclusive + test.block(TestConnection.get))),
            equals: [.malformed])
        expect(test.output(), equals: [.reset(5, .protocolError)])
        // The header blocks were decoded.
        expect(test.send(test.headers(7, end: true)), equals: [.request(7, "GET /", end: true)])
        expect(test.send(.priority(9, on: 9)), equals: [.failed(.protocolError)])
    }

    @Test("RFC 9113 §6.4: a reset closes the stream, whatever its code", arguments: [0, 8, 0xffff_ffff] as [UInt32])
    func reset(_ code: UInt32) {
        let test = TestConnection(open: 1, 3)
        expect(test.send(TestFrame(3, stream: 1, TestFrame.number(code))), equals: [.closed(1, nil)])
        expect(test.output(), equals: [])
        expect(test.connection.streamCount, equals: 1)
        expect(test.send(.data(3, "a")), equals: [.data(3, "a", end: false)])
    }
}
