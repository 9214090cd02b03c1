import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Send windows, and turns of streams (RFC 9113 §5.2, §6.9)")
struct SendWindowTests {
    private let test = TestConnection(open: 1)

    @Test("A turn has at most the payload that fills a TLS record with its header")
    func quantum() {
        test.connection.setPending(40_000, on: test.slot(1))
        expect(test.sendBodies(), equals: ["1:16375", "1:16375", "1:7250"])
        let frames = test.output()
        expect(frames.allSatisfy { $0.type == 0 && $0.stream == 1 && $0.flags == 0 })
        expect(frames.map { $0.payload.count + 9 }, equals: [16_384, 16_384, 7_259])
        expect(test.connection.sendWindow, equals: 25_535)
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 25_535)
    }

    @Test("Streams of the same urgency send in turns, small responses do not wait behind large ones")
    func roundRobin() {
        let test = TestConnection(open: 1, 3, 5)
        test.connection.setPending(35_000, on: test.slot(1))
        test.connection.setPending(10, on: test.slot(3))
        test.connection.setPending(17_000, on: test.slot(5))
        expect(test.sendBodies(), equals: ["1:16375", "3:10", "5:16375", "1:16375", "5:625", "1:2250"])
        expect(test.sendBodies(), equals: [])
    }

    @Test("RFC 9218 §4.1: more urgent streams send first")
    func urgency() {
        let test = TestConnection()
        for (id, priority) in [(1, "u=7"), (3, "u=0"), (5, "u=3"), (7, "u=0")] as [(UInt32, String)] {
            test.send(test.headers(id, TestConnection.get + [("priority", priority)]))
            test.connection.setPending(20_000, on: test.slot(id))
        }
        expect(
            test.sendBodies(), equals: ["3:16375", "7:16375", "3:3625", "7:3625", "5:16375", "5:3625", "1:5535"])
    }

    @Test("A stream that is blocked by its window does not block others, and continues when it opens")
    func blockedStream() {
        let test = TestConnection()
        test.send(.settings([4: 4]))
        test.open(1, 3)
        test.send(.windowUpdate(3, 100))
        test.connection.setPending(20, on: test.slot(1))
        test.connection.setPending(50, on: test.slot(3))
        expect(test.sendBodies(), equals: ["1:4", "3:50"])
        expect(test.send(.windowUpdate(1, 6)), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["1:6"])
        expect(test.send(.windowUpdate(1, 100)), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["1:10"])
        // Nothing waits any more.
        expect(test.send(.windowUpdate(1, 100), .windowUpdate(3, 100)), equals: [])
    }

    @Test("Streams that are blocked by the window of the connection keep their turn")
    func blockedConnection() {
        let test = TestConnection(open: 1, 3)
        test.connection.setPending(65_535, on: test.slot(1))
        expect(test.sendBodies().count, equals: 5)
        expect(test.connection.sendWindow, equals: 0)
        test.send(.windowUpdate(1, 1_000))
        test.connection.setPending(8, on: test.slot(3))
        test.connection.setPending(8, on: test.slot(1))
        expect(test.connection.nextTurn()?.count, equals: nil)
        expect(test.send(.windowUpdate(0, 5)), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["3:5"])
        expect(test.send(.windowUpdate(0, 5)), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["1:5"])
        expect(test.send(.windowUpdate(0, 100)), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["3:3", "1:3"])
        // The window was open already, or nothing waits.
        expect(test.send(.windowUpdate(0, 100)), equals: [])
    }

    @Test("RFC 9113 §6.9: an increment of 0 resets the stream, or ends the connection")
    func zeroIncrement() {
        expect(test.send(.windowUpdate(1, 0)), equals: [.closed(1, .protocolError)])
        expect(test.output(), equals: [.reset(1, .protocolError)])
        // The reserved bit does not count.
        expect(test.send(.windowUpdate(0, 0x8000_0000)), equals: [.failed(.protocolError)])
        expect(test.output(), equals: [.goAway(last: 1, .protocolError)])
    }

    @Test("RFC 9113 §6.9.1: a window above 2,147,483,647 resets the stream, or ends the connection")
    func overflow() {
        let most = UInt32(0x7fff_ffff - 65_535)
        let test = TestConnection(open: 1, 3)
        expect(test.send(.windowUpdate(1, most), .windowUpdate(0, most)), equals: [])
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 0x7fff_ffff)
        expect(test.send(.windowUpdate(1, 1)), equals: [.closed(1, .flowControlError)])
        expect(test.send(.windowUpdate(3, 0x7fff_ffff)), equals: [.closed(3, .flowControlError)])
        expect(test.output(), equals: [.reset(1, .flowControlError), .reset(3, .flowControlError)])
        expect(test.send(.windowUpdate(0, 1)), equals: [.failed(.flowControlError)])
    }

    // MARK: - SETTINGS_INITIAL_WINDOW_SIZE

    @Test("RFC 9113 §6.9.2: a smaller initial window makes windows negative, and they recover")
    func negative() {
        test.connection.setPending(60_000, on: test.slot(1))
        expect(test.sendBodies(turns: 3), equals: ["1:16375", "1:16375", "1:16375"])
        expect(test.send(.settings([4: 1_000])), equals: [])
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 1_000 - 49_125)
        expect(test.sendBodies(), equals: [])
        expect(!test.canSend(1, on: test.slot(1)))
        expect(test.send(.windowUpdate(1, 48_125)), equals: [])
        expect(test.sendBodies(), equals: [])
        expect(test.send(.windowUpdate(1, 2)), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["1:2"])
        expect(test.send(.settings([4: 1_005])), equals: [.windowOpened])
        expect(test.sendBodies(), equals: ["1:5"])
        expect(test.send(.settings([4: 0]), .settings([4: 1_004])), equals: [])
        expect(test.connection.sendWindow(of: test.slot(1)), equals: -1)
        expect(test.connection.sendWindow, equals: 65_535 - 49_125 - 7)
    }

    @Test("A larger initial window that makes a stream's overflow ends the connection")
    func settingsOverflow() {
        test.send(.windowUpdate(1, 0x7fff_ffff - 65_535))
        expect(test.send(.settings([4: 65_535])), equals: [])
        expect(test.send(.settings([4: 65_536])), equals: [.failed(.flowControlError)])
        expect(test.output().last, equals: .goAway(last: 1, .flowControlError))
    }

    @Test("Streams that open after SETTINGS have the new window, closed ones have none")
    func newStreams() {
        test.send(.settings([4: 10]))
        test.open(3)
        expect(test.connection.sendWindow(of: test.slot(1)), equals: 10)
        expect(test.connection.sendWindow(of: test.slot(3)), equals: 10)
        test.send(.reset(1))
        expect(test.connection.sendWindow(of: 0), equals: 0)
        expect(test.connection.sendWindow(of: -1), equals: 0)
        expect(test.connection.sendWindow(of: 7), equals: 0)
    }

    // MARK: - Responses that need no turn

    @Test("A response that fits into a frame and both windows may be sent at once")
    func canSend() {
        let test = TestConnection(open: 1, 3)
        let (first, second) = (test.slot(1), test.slot(3))
        expect(test.canSend(0, on: first))
        expect(test.canSend(16_375, on: first))
        expect(!test.canSend(16_376, on: first))
        expect(!test.canSend(1, on: 9))
        expect(!test.canSend(1, on: -1))
        test.send(.settings([4: 100]))
        expect(test.canSend(100, on: first))
        expect(!test.canSend(101, on: first))
        test.send(.windowUpdate(3, 100_000))
        test.connection.setPending(65_500, on: second)
        test.sendBodies()
        expect(test.canSend(35, on: first))
        expect(!test.canSend(36, on: first))
        test.send(.reset(1))
        expect(!test.canSend(0, on: first))
    }

    @Test("What is sent at once leaves the queue in order")
    func sentWhileQueued() {
        let test = TestConnection(open: 1, 3)
        test.connection.setPending(5, on: test.slot(1))
        test.connection.setPending(6, on: test.slot(3))
        test.connection.beginData(5, on: test.slot(1), endsStream: true)
        test.connection.output.writeRepeatingByte(0x61, count: 5)
        expect(test.sendBodies(), equals: ["3:6"])
        expect(test.output(), equals: [.data(1, "aaaaa", end: true), .data(3, "bbbbbb")])
    }

    @Test("The end of a response needs no window")
    func emptyEnd() {
        let test = TestConnection()
        test.send(.settings([4: 0]))
        test.open(1)
        test.connection.beginData(0, on: test.slot(1), endsStream: true)
        expect(test.output(), equals: [.data(1, [], end: true)])
    }

    @Test(
        "A stream that ends leaves the queue, at its front, in its middle and at its end",
        arguments: [1, 3, 5, 7] as [UInt32])
    func endedWhileQueued(_ id: UInt32) {
        let test = TestConnection(open: 1, 3, 5, 7)
        for other in [1, 3, 5, 7] as [UInt32] { test.connection.setPending(Int(other), on: test.slot(other)) }
        test.send(.reset(id))
        expect(test.sendBodies(), equals: ["1:1", "3:3", "5:5", "7:7"].filter { !$0.hasPrefix("\(id):") })
        // The slot can be queued again.
        test.send(test.headers(9))
        test.connection.setPending(9, on: test.slot(9))
        expect(test.sendBodies(), equals: ["9:9"])
    }

    @Test("Pending bytes on a slot that is not open, or none, give no turn")
    func nothingPending() {
        for slot in [-1, 0, 5] { test.connection.setPending(0, on: slot) }
        test.connection.setPending(10, on: 5)
        expect(test.connection.nextTurn()?.count, equals: nil)
        test.connection.setPending(10, on: 0)
        test.connection.setPending(0, on: 0)
        expect(test.connection.nextTurn()?.count, equals: nil)
    }
}
