import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Requests of an HTTP/2 connection")
struct RequestTests {
    private let test = TestConnection()

    @Test("RFC 9113 §8.1: a request without body, one with body, and one with trailers")
    func requests() {
        expect(test.send(test.headers(1, end: true)), equals: [.request(1, "GET /", end: true)])
        expect(
            test.send([test.headers(3, TestConnection.post), .data(3, "ab"), .data(3, "c", end: true)]),
            equals: [
                .request(3, "POST /", end: false), .data(3, "ab", end: false), .data(3, "c", end: true),
            ])
        expect(
            test.send([
                test.headers(5, TestConnection.post), .data(5, "ab"), test.headers(5, [("x-sum", "1")], end: true),
            ]),
            equals: [.request(5, "POST /", end: false), .data(5, "ab", end: false), .trailers(5, ["x-sum: 1"])])
        expect(test.output(), equals: [])
        expect(test.connection.streamCount, equals: 3)
        expect(test.connection.lastStreamID, equals: 5)
    }

    @Test("An empty body is ended by an empty frame, or by trailers without a field")
    func emptyBody() {
        let test = TestConnection(open: 1, 3)
        expect(test.send(.data(1, [], end: true)), equals: [.data(1, "", end: true)])
        expect(test.send(TestFrame(1, flags: 5, stream: 3, [])), equals: [.trailers(3, [])])
        expect(test.output(), equals: [])
    }

    @Test("Empty DATA without the end is no event")
    func emptyData() {
        let test = TestConnection(open: 1)
        expect(test.send(.data(1, []), .data(1, [], padding: 3), .data(1, "a")), equals: [.data(1, "a", end: false)])
    }

    @Test("The priority field sets urgency and incremental; an extended CONNECT has its protocol")
    func properties() {
        test.send(test.headers(1, TestConnection.get + [("priority", "u=1, i")], end: true))
        expect(test.lastRequest.urgency, equals: 1)
        expect(test.lastRequest.isIncremental)
        expect(test.connection.streams[test.slot(1)].urgency, equals: 1)
        var connect = TestConnection.get
        connect[0] = (":method", "CONNECT")
        expect(
            test.send(test.headers(3, connect + [(":protocol", "websocket")])),
            equals: [.request(3, "GET /", end: false)])
        expect(test.lastRequest.tunnel, equals: .webSocket)
        expect(test.lastRequest.urgency, equals: 3)
    }

    @Test("Ids may skip numbers")
    func skippedIDs() {
        for id in [3, 7, 99, 0x7fff_ffff] as [UInt32] {
            expect(test.send(test.headers(id, end: true)), equals: [.request(id, "GET /", end: true)])
        }
        expect(test.connection.lastStreamID, equals: 0x7fff_ffff)
        // No further id exists.
        expect(test.send(test.headers(101, end: true)), equals: [.failed(.protocolError)])
    }

    @Test(
        "RFC 9113 §5.1.1: an id that is lower than an earlier one ends the connection",
        arguments: [1, 3, 7, 9] as [UInt32])
    func decreasingID(_ id: UInt32) {
        test.send(test.headers(5), test.headers(11))
        expect(test.send(test.headers(id, end: true)), equals: [.failed(.protocolError)])
        expect(test.output(), equals: [.goAway(last: 11, .protocolError)])
    }

    // MARK: - Malformed and oversized requests

    @Test(
        "RFC 9113 §8.1.1: a malformed request is reset, and the next one is decoded correctly",
        arguments: [
            [("x", "y")], [(":status", "200")], [("X", "y")], [("connection", "close")], [("te", "gzip")],
            [(":path", "/"), (":path", "/")], [],
        ])
    func malformed(_ extra: [(String, String)]) {
        test.send(test.headers(1, TestConnection.get + [("x-kept", "1"), ("x-kept", "2")], end: true))
        let fields = extra.first?.0 == "x" ? extra : TestConnection.get + extra
        let broken = extra.isEmpty ? [] : fields
        expect(test.send(test.headers(3, broken, end: true)), equals: [.malformed])
        expect(test.output(), equals: [.reset(3, .protocolError)])
        expect(test.connection.streamCount, equals: 1)
        expect(
            test.send(test.headers(5, TestConnection.get + [("x-kept", "1"), ("x-kept", "2")], end: true)),
            equals: [.request(5, "GET /, x-kept: 1, x-kept: 2", end: true)])
    }

    @Test(
        "A head above a limit is an event with the error, its stream can get a response, and the next one is right",
        arguments: [
            ([(":path", "/" + String(repeating: "a", count: 256))], WireError.targetTooLong),
            ((0..<21).map { ("x-\($0)", "a") }, .tooManyFields),
            ([("x", String(repeating: "a", count: 2_048))], .headTooLarge),
            ([("x", String(repeating: "\\", count: 20_000))], .headTooLarge),
        ])
    func oversized(_ extra: [(String, String)], _ error: WireError) {
        let fields = extra[0].0 == ":path" ? Array(TestConnection.get.dropLast()) + extra : TestConnection.get + extra
        let next = [("x-next", "a")]
        expect(test.send(test.frames(1, fields + next, size: 16_384)), equals: [.oversized(1, error, end: false)])
        expect(test.send(.data(1, "a", end: true)), equals: [.data(1, "a", end: true)])
        expect(test.output(), equals: [])
        expect(test.isOpen(test.slot(1)))
        expect(
            test.send(test.headers(3, TestConnection.get + next, end: true)),
            equals: [.request(3, "GET /, x-next: a", end: true)])
        expect(test.send(test.frames(5, fields, end: true, size: 16_384)), equals: [.oversized(5, error, end: true)])
    }

    @Test("A compression error ends the connection, in requests, trailers and late trailers")
    func compressionError() {
        for prepare in [
            { (_: TestConnection) in [1] as [UInt32] },
            {
                $0.open(1)
                return [1]
            },
            {
                $0.open(1)
                $0.connection.reset($0.slot(1), .cancel)
                return [1]
            },
        ] {
            let test = TestConnection()
            let id = prepare(test)[0]
            _ = test.output()
            expect(
                test.send(TestFrame(1, flags: 5, stream: id, [0xff, 0xff, 0xff])), equals: [.failed(.compressionError)])
            expect(test.output(), equals: [.goAway(last: 1, .compressionError)])
        }
    }

    @Test("A request that only the owner recognizes as malformed is reset and charged")
    func rejected() {
        let test = TestConnection(open: 1)
        test.connection.rejectRequest(test.slot(1), now: test.now)
        expect(test.output(), equals: [.reset(1, .protocolError)])
        expect(test.connection.streamCount, equals: 0)
        test.connection.rejectRequest(0, now: test.now)
        expect(test.output(), equals: [])
    }

    // MARK: - The limit of streams

    @Test("RFC 9113 §5.1.2, §8.7: a request above the limit is refused, and the decoder stays right")
    func streamLimit() {
        let test = TestConnection(open: 1, 3, streams: 2)
        let fields = TestConnection.get + [("x-a", "1"), ("x-b", "2")]
        expect(test.send(test.headers(5, fields)), equals: [])
        expect(test.output(), equals: [.reset(5, .refusedStream)])
        // What the client sent before it noticed is ignored.
        expect(test.send(.data(5, "a"), .windowUpdate(5, 100), test.headers(5, [("x-c", "3")], end: true)), equals: [])
        expect(test.output(), equals: [])
        test.connection.reset(test.slot(1), .cancel)
        expect(
            test.send(test.headers(7, fields + [("x-c", "3")], end: true)),
            equals: [.request(7, "GET /, x-a: 1, x-b: 2, x-c: 3", end: true)])
        expect(test.output(), equals: [.reset(1, .cancel)])
        expect(test.connection.streamCount, equals: 2)
    }

    @Test("An end of any kind makes room for another stream")
    func room() {
        let test = TestConnection(streams: 1)
        var id: UInt32 = 1
        let ends: [(TestConnection, UInt32) -> Void] = [
            { $0.send(.reset($1)) },
            { $0.send(.windowUpdate($1, 0)) },
            { $0.connection.reset($0.slot($1), .cancel) },
            { $0.connection.finish($0.slot($1)) },
            {
                $0.send(.data($1, [], end: true))
                $0.connection.finish($0.slot($1))
            },
        ]
        for end in ends {
            expect(test.send(test.headers(id)), equals: [.request(id, "GET /", end: false)])
            end(test, id)
            expect(test.connection.streamCount, equals: 0)
            expect(!test.isOpen(0))
            id += 2
        }
        expect(test.connection.streams.slotCount, equals: 1)
    }

    // MARK: - Shutdown

    @Test("RFC 9113 §6.8: streams are accepted after the first GOAWAY and refused after the second")
    func shutdown() {
        let test = TestConnection(open: 1)
        test.connection.announceShutdown()
        expect(test.output(), equals: [.goAway(last: 0x7fff_ffff, .noError), .ping(0)])
        expect(test.send(test.headers(3, end: true)), equals: [.request(3, "GET /", end: true)])
        test.connection.finishShutdown()
        expect(test.output(), equals: [.goAway(last: 3, .noError)])
        expect(test.send(test.headers(5, TestConnection.get + [("x-a", "1")], end: true)), equals: [])
        expect(test.output(), equals: [.reset(5, .refusedStream)])
        expect(test.send(.data(1, "a", end: true)), equals: [.data(1, "a", end: true)])
    }

    @Test("RFC 9113 §6.8: the last stream id of a GOAWAY never increases")
    func lastStreamID() {
        let test = TestConnection(open: 1)
        test.connection.finishShutdown()
        test.send(test.headers(3, end: true))
        _ = test.output()
        expect(test.send(TestFrame(5, stream: 1)), equals: [.failed(.protocolError)])
        expect(test.output(), equals: [.goAway(last: 1, .protocolError)])
    }

    @Test("An idle connection frees memory and works as before")
    func compaction() {
        let fields = TestConnection.get + [("x-a", "1")]
        test.send(test.headers(1, fields, end: true))
        test.connection.compact()
        expect(test.isOpen(test.slot(1)))
        test.connection.finish(test.slot(1))
        test.connection.compact()
        expect(test.connection.streams.slotCount, equals: 0)
        expect(test.connection.output.capacity, equals: 0)
        expect(test.send(test.headers(3, fields, end: true)), equals: [.request(3, "GET /, x-a: 1", end: true)])
        expect(test.send(.data(1, "a")), equals: [])
        expect(test.output(), equals: [.reset(1, .streamClosed)])
    }

    @Test("Memory is freed while a header block or a body is incomplete, and nothing of it is lost")
    func compactionMeanwhile() {
        let frames = test.frames(1, TestConnection.get + [("x-a", "1")], end: true, size: 10)
        for frame in frames.dropLast() { expect(test.send(frame), equals: []) }
        test.connection.compact()
        expect(test.isReceivingHeaderBlock)
        expect(test.send(Array(frames.suffix(1))), equals: [.request(1, "GET /, x-a: 1", end: true)])
        // The rest of a frame whose stream has been reset.
        test.open(3)
        let data = TestFrame.data(3, "abc").bytes
        test.send(Array(data.dropLast(2)))
        for id in [1, 3] as [UInt32] { test.connection.reset(test.slot(id), .cancel) }
        test.connection.compact()
        _ = test.output()
        expect(test.send(Array(data.suffix(2)) + TestFrame.ping().bytes), equals: [])
        expect(test.output(), equals: [.ping(acknowledgement: true)])
    }
}
