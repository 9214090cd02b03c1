import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Receive windows (RFC 9113 §5.2, §6.9)")
struct ReceiveWindowTests {
    /// Sends a body in frames of at most 16,384 bytes.
    private static func send(_ count: Int, on id: UInt32, _ test: TestConnection) -> [SeenEvent] {
        var events: [SeenEvent] = []
        var left = count
        while left > 0 {
            events += test.send(.data(id, count: min(left, 16_384)))
            left -= min(left, 16_384)
        }
        return events
    }

    /// Windows, bytes held and bytes not yet announced are all of the connection's window.
    private static func total(_ test: TestConnection) -> Int {
        var held = 0
        for slot in 0..<test.connection.streams.slotCount where test.connection.isOpen(slot) {
            held += test.connection.streams[slot].heldBytes
        }
        return test.connection.receiveWindow + test.connection.unacknowledgedBytes + held
    }

    @Test("A body above the window of the connection ends the connection, one of exactly its size does not")
    func connectionWindow() {
        let test = TestConnection(open: 1)
        expect(SeenEvent.joined(Self.send(65_535, on: 1, test)).count, equals: 1)
        expect(test.output(), equals: [])
        expect(test.send(.data(1, "a")), equals: [.failed(.flowControlError)])
        expect(test.output(), equals: [.goAway(last: 1, .flowControlError)])
    }

    @Test("A body above the window of its stream resets the stream, one of exactly its size does not")
    func streamWindow() {
        let test = TestConnection(open: 1, 3, streamWindow: 1_000)
        expect(Self.send(1_000, on: 1, test).count, equals: 1)
        expect(test.send(.data(1, "a")), equals: [.closed(1, .flowControlError)])
        expect(test.output(), equals: [.reset(1, .flowControlError)])
        expect(Self.send(1_001, on: 3, test), equals: [.closed(3, .flowControlError)])
        expect(Self.total(test), equals: 65_535)
        expect(test.connection.unacknowledgedBytes, equals: 2_002)
    }

    @Test("RFC 9113 §6.9.2: a body that is sent before the client knows the settings fits the window")
    func firstFlight() {
        let configuration = HTTP2ConnectionConfiguration(headLimits: TestConnection.limits, concurrentStreams: 10)
        #expect(configuration.initialStreamWindow >= 65_535)
        let test = TestConnection(initialStreamWindow: configuration.initialStreamWindow, isEstablished: false)
        test.send(TestFrame.preface + TestFrame.settings().bytes)
        test.open(1)
        expect(SeenEvent.joined(Self.send(65_535, on: 1, test)).count, equals: 1)
        expect(!test.output().contains(.reset(1, .flowControlError)))
    }

    @Test("The window of a stream is raised when its body begins to be consumed")
    func raisedWindow() {
        let test = TestConnection(open: 1, 3, streamWindow: 40_000, initialStreamWindow: 10_000)
        expect(test.connection.streams[test.slot(1)].receiveWindow, equals: 10_000)
        test.send(.data(1, count: 9_000))
        expect(test.output(), equals: [])
        test.connection.consumed(1, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(1, 30_001)])
        test.connection.consumed(8_999, on: test.slot(1))
        expect(test.output(), equals: [])
        expect(test.connection.streams[test.slot(1)].receiveWindow, equals: 31_001)
        // The other stream's is not.
        expect(test.send(.data(3, count: 10_001)), equals: [.closed(3, .flowControlError)])
        expect(Self.total(test), equals: 65_535)
    }

    @Test("Padding counts against the windows")
    func padding() {
        let test = TestConnection(open: 1, streamWindow: 300)
        expect(test.send(.data(1, [UInt8](repeating: 0x61, count: 44), padding: 255)).count, equals: 1)
        expect(test.connection.streams[test.slot(1)].receiveWindow, equals: 256)
        expect(test.connection.streams[test.slot(1)].heldBytes, equals: 44)
        expect(test.output(), equals: [.windowUpdate(1, 256)])
        expect(Self.total(test), equals: 65_535)
        let other = TestConnection(open: 1, streamWindow: 300)
        expect(
            other.send(.data(1, [UInt8](repeating: 0x61, count: 45), padding: 255)),
            equals: [.closed(1, .flowControlError)])
    }

    @Test("Consumed bytes are returned when half of a stream's window is, or a quarter of the connection's")
    func consumed() {
        let test = TestConnection(open: 1, streamWindow: 20_000)
        _ = Self.send(16_384, on: 1, test)
        test.connection.consumed(9_999, on: test.slot(1))
        expect(test.output(), equals: [])
        test.connection.consumed(1, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(1, 10_000)])
        test.connection.consumed(6_384, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(0, 16_384)])
        _ = Self.send(13_000, on: 1, test)
        test.connection.consumed(13_000, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(1, 19_384)])
        _ = Self.send(3_383, on: 1, test)
        test.connection.consumed(3_382, on: test.slot(1))
        expect(test.output(), equals: [])
        expect(test.connection.unacknowledgedBytes, equals: 16_382)
        test.connection.consumed(1, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(0, 16_383)])
        expect(Self.total(test), equals: 65_535)
    }

    @Test("More than was received is never returned, and nothing on a slot that is not open")
    func consumedTooMuch() {
        let test = TestConnection(open: 1, streamWindow: 10)
        test.send(.data(1, "abc"))
        test.connection.consumed(1_000_000, on: test.slot(1))
        expect(test.connection.streams[test.slot(1)].receiveWindow, equals: 7)
        expect(test.connection.streams[test.slot(1)].unacknowledgedBytes, equals: 3)
        for slot in [-1, 1, 99] { test.connection.consumed(5, on: slot) }
        expect(Self.total(test), equals: 65_535)
        expect(test.output(), equals: [])
    }

    @Test("A stream whose request has ended gets no window, the connection does")
    func endedStream() {
        let test = TestConnection(open: 1, streamWindow: 65_535)
        for part in 1...3 { test.send(.data(1, count: 16_000, end: part == 3)) }
        test.connection.consumed(48_000, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(0, 48_000)])
    }

    @Test("What a stream holds is returned to the connection when it ends, in whatever way")
    func heldBytes() {
        let ends: [(TestConnection) -> Void] = [
            { $0.send(.reset(1)) },
            { $0.send(.data(1, [], end: true), .data(1, "late")) },
            { $0.connection.finish($0.slot(1)) },
            { $0.connection.reset($0.slot(1), .cancel) },
            { $0.connection.rejectRequest($0.slot(1), now: $0.now) },
            {
                $0.send(.data(1, count: 1, end: true))
                $0.connection.finish($0.slot(1))
            },
        ]
        for end in ends {
            let test = TestConnection(open: 1)
            _ = Self.send(40_000, on: 1, test)
            expect(test.output(), equals: [])
            end(test)
            expect(!test.isOpen(0))
            expect(Self.total(test), equals: 65_535)
            expect(test.output().contains { $0.type == 8 && $0.stream == 0 && TestFrame.number($0.payload) >= 40_000 })
            #expect(test.connection.receiveWindow >= 65_530)
        }
    }

    @Test("Data on streams that are closed is returned to the connection, so that others are not blocked")
    func lateData() {
        let test = TestConnection(open: 1, 3)
        test.connection.reset(test.slot(1), .cancel)
        _ = test.output()
        for _ in 0..<20 { expect(Self.send(16_384, on: 1, test), equals: []) }
        expect(test.output().allSatisfy { $0.type == 8 && $0.stream == 0 })
        expect(Self.total(test), equals: 65_535)
        expect(test.send(.data(3, count: 16_384)).count, equals: 1)
    }

    @Test("Data above the window of the connection is an error on closed streams too")
    func lateOverflow() {
        let test = TestConnection(open: 1, 3)
        test.connection.reset(test.slot(1), .cancel)
        _ = Self.send(65_000, on: 3, test)
        expect(test.send(.data(1, count: 536)), equals: [.failed(.flowControlError)])
    }

    @Test("Body data of the wrong length is returned to the connection")
    func wrongLength() {
        let test = TestConnection(open: 1)
        test.connection.expectBody(3, on: test.slot(1))
        test.send(.data(1, count: 10_000))
        expect(test.connection.unacknowledgedBytes, equals: 10_000)
        expect(Self.total(test), equals: 65_535)
    }

    @Test("The window of the connection grows once, and is replenished to its new size")
    func growth() {
        let test = TestConnection(open: 1, streamWindow: 1_000_000)
        expect(!test.needsReceiveWindow)
        _ = Self.send(32_769, on: 1, test)
        expect(test.needsReceiveWindow)
        test.connection.growReceiveWindow(to: 262_144)
        expect(test.output(), equals: [.windowUpdate(0, 196_609)])
        expect(!test.needsReceiveWindow)
        test.connection.growReceiveWindow(to: 262_144)
        test.connection.growReceiveWindow(to: 65_535)
        test.connection.growReceiveWindow(to: 1 << 31)
        expect(test.output(), equals: [])
        _ = Self.send(262_144 - 32_769, on: 1, test)
        test.connection.consumed(65_535, on: test.slot(1))
        expect(test.output(), equals: [])
        test.connection.consumed(1, on: test.slot(1))
        expect(test.output(), equals: [.windowUpdate(0, 65_536)])
        expect(test.send(.data(1, count: 16_384)).count, equals: 1)
    }

    @Test("The announced windows suffice: a client that obeys them can always send more after all is consumed")
    func noDeadlock() {
        for window in [1, 2, 3, 1_000, 65_534, 65_535, 65_536, 131_072] {
            let test = TestConnection(open: 1, streamWindow: window)
            var stream = window
            var connection = 65_535
            var sent = 0
            while sent < 3 * max(window, 65_535), sent < 3_000 * window {
                let count = min(stream, connection, 16_384)
                guard count > 0 else { break }
                test.send(.data(1, count: count))
                stream -= count
                connection -= count
                sent += count
                test.connection.consumed(count, on: test.slot(1))
                for frame in test.output() {
                    if frame.stream == 0 { connection += Int(TestFrame.number(frame.payload)) }
                    if frame.stream == 1 { stream += Int(TestFrame.number(frame.payload)) }
                }
            }
            #expect(sent >= min(3 * max(window, 65_535), 3_000 * window), "window \(window)")
        }
    }
}
