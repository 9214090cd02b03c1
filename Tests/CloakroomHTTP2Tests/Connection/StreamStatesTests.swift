import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

/// What a frame of the client means in each state of a stream.
@Suite("States of streams (RFC 9113 §5.1)")
struct StreamStatesTests {
    enum State: CaseIterable {
        /// Not used yet, higher than all that were.
        case idle
        /// Not used, lower than another one.
        case skipped
        /// Even ids belong to the server, which opens no stream.
        case even
        case open
        /// The request has ended, the response has not.
        case halfClosed
        case resetByClient
        case resetByGateway
        /// The response ended before the request.
        case answeredEarly
        /// It was refused for the limit of streams, or malformed.
        case refused, malformed
        /// Request and response have ended.
        case ended
        /// It ended more than 1,024 streams ago.
        case forgotten
    }

    enum Frame: CaseIterable {
        case data, lastData, emptyEnd, headers, trailers, priority, reset, windowUpdate, continuation, pushPromise,
            unknown
    }

    enum Result: Equatable {
        /// Handled, with an event.
        case event
        /// No effect.
        case ignored
        /// The stream is reset.
        case stream(HTTP2ErrorCode)
        /// A reset is sent on a stream that is closed already.
        case lateReset(HTTP2ErrorCode)
        case connection(HTTP2ErrorCode)
    }

    /// The table. What is not listed: CONTINUATION and PUSH_PROMISE are always errors of the connection, unknown frames
    /// and PRIORITY never have an effect.
    static func expected(_ state: State, _ frame: Frame) -> Result {
        switch (state, frame) {
        case (_, .continuation), (_, .pushPromise): .connection(.protocolError)
        case (_, .unknown), (_, .priority): .ignored
        case (.idle, .headers), (.idle, .trailers): .event
        case (.idle, _), (.even, _): .connection(.protocolError)
        case (.open, .headers): .stream(.protocolError)
        case (.open, .windowUpdate): .ignored
        case (.open, _): .event
        case (.halfClosed, .reset): .event
        case (.halfClosed, .windowUpdate): .ignored
        case (.halfClosed, _): .stream(.streamClosed)
        case (_, .reset), (_, .windowUpdate): .ignored
        case (.resetByGateway, _), (.answeredEarly, _), (.refused, _), (.malformed, _): .ignored
        case (_, .data), (_, .lastData), (_, .emptyEnd): .lateReset(.streamClosed)
        case (.resetByClient, _), (.ended, _): .connection(.streamClosed)
        case (.skipped, _), (.forgotten, _): .connection(.protocolError)
        }
    }

    private static func prepare(_ test: TestConnection, _ state: State) -> UInt32 {
        let id: UInt32 = state == .even ? 6 : 5
        switch state {
        case .idle, .even: break
        case .skipped: test.open(7)
        case .open: test.open(id)
        case .halfClosed: test.send(test.headers(id, end: true))
        case .resetByClient: test.send(test.headers(id), .reset(id))
        case .resetByGateway:
            test.open(id)
            test.connection.reset(test.slot(id), .internalError)
        case .answeredEarly:
            test.open(id)
            test.connection.finish(test.slot(id))
        case .refused:
            test.open(1, 3)
            test.send(test.headers(id))
        case .malformed: test.send(test.headers(id, [("x", "y")]))
        case .ended, .forgotten:
            test.send(test.headers(id, end: true))
            test.connection.finish(test.slot(id))
            if state == .forgotten { test.send(test.headers(id + 2 * 1_024)) }
        }
        _ = test.output()
        return id
    }

    private static func make(_ frame: Frame, _ id: UInt32, _ test: TestConnection) -> TestFrame {
        switch frame {
        case .data: .data(id, "a")
        case .lastData: .data(id, "a", end: true)
        case .emptyEnd: .data(id, [], end: true)
        case .headers: test.headers(id)
        case .trailers: test.headers(id, [("x-sum", "1")], end: true)
        case .priority: .priority(id)
        case .reset: .reset(id)
        case .windowUpdate: .windowUpdate(id, 100)
        case .continuation: TestFrame(9, flags: 4, stream: id, [0x82])
        case .pushPromise: TestFrame(5, flags: 4, stream: id, [0, 0, 0, 2, 0x82])
        case .unknown: TestFrame(0x42, stream: id, [1])
        }
    }

    @Test("Every frame in every state", arguments: State.allCases, Frame.allCases)
    func cell(_ state: State, _ frame: Frame) {
        let test = TestConnection(streams: 2)
        let id = Self.prepare(test, state)
        let last = test.connection.lastStreamID
        let count = test.connection.streamCount
        let events = test.send(Self.make(frame, id, test))
        let output = test.output()
        switch Self.expected(state, frame) {
        case .event:
            expect(events.count, equals: 1)
            if state == .idle, frame == .trailers {
                // Trailers without a request are a malformed request.
                expect(events, equals: [.malformed])
                expect(output, equals: [.reset(id, .protocolError)])
            } else if frame == .reset {
                expect(events, equals: [.closed(id, nil)])
                expect(output, equals: [])
            } else {
                expect(output, equals: [])
            }
        case .ignored:
            expect(events, equals: [])
            expect(output, equals: [])
            expect(test.connection.streamCount, equals: count)
        case .stream(let code):
            expect(events, equals: [.closed(id, code)])
            expect(output, equals: [.reset(id, code)])
            expect(test.connection.streamCount, equals: count - 1)
        case .lateReset(let code):
            expect(events, equals: [])
            expect(output, equals: [.reset(id, code)])
            expect(test.connection.streamCount, equals: count)
        case .connection(let code):
            expect(events, equals: [.failed(code)])
            expect(output, equals: [.goAway(last: last, code)])
            return
        }
        // The connection is usable, and its decoder right.
        for slot in 0..<test.connection.streams.slotCount { test.connection.finish(slot) }
        _ = test.output()
        let next = (test.connection.lastStreamID | 1) + 2
        expect(
            test.send(test.headers(next, TestConnection.get + [("x-sum", "1")], end: true)),
            equals: [.request(next, "GET /, x-sum: 1", end: true)])
    }

    @Test("A response ends its stream when the request has ended; otherwise the rest of the request is not needed")
    func finish() {
        let test = TestConnection()
        test.send(test.headers(1, end: true), test.headers(3))
        test.connection.finish(test.slot(1))
        expect(test.output(), equals: [])
        test.connection.finish(test.slot(3))
        expect(test.output(), equals: [.reset(3, .noError)])
        for slot in [-1, 0, 1, 2, 100] { test.connection.finish(slot) }
        expect(test.output(), equals: [])
        expect(test.connection.streamCount, equals: 0)
    }

    @Test("A stream is reset once")
    func reset() {
        let test = TestConnection(open: 1)
        let slot = test.slot(1)
        test.connection.reset(slot, .refusedStream)
        for other in [slot, -1, 1, 100] { test.connection.reset(other, .cancel) }
        expect(test.output(), equals: [.reset(1, .refusedStream)])
    }
}
