import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("A connection and a simple model of it, driven with random frames")
struct ConnectionModelTests {
    private static let streamLimit = 5
    private static let streamWindow = 20_000

    /// A connection and its model, which the same frames reach.
    private struct Pair {
        var test: TestConnection
        var model = ConnectionModel(streamLimit: streamLimit, streamWindow: streamWindow)
        var generator: SeededGenerator
        /// Bodies of responses that were written, by stream.
        var sent: [UInt32: Int] = [:]

        init(seed: UInt64) {
            test = TestConnection(streams: streamLimit, streamWindow: streamWindow)
            generator = SeededGenerator(seed: seed)
        }

        mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }

        /// A stream that is probably open, else recently closed, sometimes new or never used.
        mutating func anyStream() -> UInt32 {
            switch below(20) {
            case 0: return max(1, model.last) + 2 * UInt32(below(3))
            case 1, 2, 3: return UInt32(max(1, Int(model.last) - 2 * below(8)))
            default: return model.open.keys.sorted().randomElement(using: &generator) ?? max(1, model.last)
            }
        }
    }

    /// Sends a random frame to both.
    /// - Returns: Whether the connection has failed, in the same way as the model.
    private static func receive(_ pair: inout Pair) throws(Mismatch) -> Bool {
        let id = pair.anyStream()
        let frame: TestFrame
        let outcome: ConnectionModel.Outcome
        let end = pair.below(3) == 0
        switch pair.below(40) {
        case 0..<10:
            // A step of more than one is a gap.
            let new = max(1, pair.model.last + (pair.model.last == 0 ? 1 : 2)) + (pair.below(10) == 0 ? 4 : 0)
            let isMalformed = pair.below(10) == 0
            frame = pair.test.headers(new, isMalformed ? [("x", "y")] : TestConnection.get, end: end)
            outcome = pair.model.request(new, isMalformed: isMalformed, end: end)
        case 10:
            frame = pair.test.headers(id, end: end)
            outcome = pair.model.request(id, isMalformed: false, end: end)
        case 11, 12:
            frame = pair.test.headers(id, [("x", "y")], end: true)
            outcome = pair.model.trailers(id)
        case 13..<23:
            let count = [0, 1, 100, 5_000, 16_000][pair.below(5)]
            let padding = pair.below(4) == 0 ? pair.below(256) : nil
            frame = .data(id, [UInt8](repeating: 0x61, count: count), end: end, padding: padding)
            outcome = pair.model.data(id, count: count, padding: padding, end: end)
        case 23..<29:
            let increment =
                pair.below(60) == 0 ? 0 : [16, 1_000, 70_000, 0x7fff_0000][pair.below(20) == 0 ? 3 : pair.below(3)]
            frame = .windowUpdate(id, UInt32(increment))
            outcome = pair.model.windowUpdate(id, increment)
        case 29..<33:
            let increment = [16, 1_000, 70_000][pair.below(3)]
            frame = .windowUpdate(0, UInt32(increment))
            outcome = pair.model.windowUpdate(0, increment)
        case 33:
            let value = [0, 10, 65_535, 200_000][pair.below(4)]
            frame = .settings([4: UInt32(value)])
            outcome = pair.model.initialWindow(value)
        case 34, 35:
            frame = .reset(id)
            outcome = pair.model.reset(id)
        case 36:
            frame = .ping(UInt64(id))
            outcome = .nothing
        case 37:
            frame = TestFrame(0x20, stream: id, [1])
            outcome = .nothing
        default:
            frame = .priority(id, on: 0)
            outcome = .nothing
        }
        // Cut anywhere.
        let cut = pair.below(frame.bytes.count + 1)
        var events = pair.test.send(Array(frame.bytes[..<cut]))
        events += pair.test.send(Array(frame.bytes[cut...]))
        // Which event opens a window depends on what waits.
        events = SeenEvent.joined(events.filter { $0 != .windowOpened })
        let output = pair.test.output()
        let resets = output.filter { $0.type == 3 }
        switch outcome {
        case .nothing:
            guard events == [], resets.isEmpty else { throw Mismatch("\(frame): \(events), \(resets)") }
        case .events(let expected):
            guard events == expected else { throw Mismatch("\(frame): \(events) instead of \(expected)") }
            let expectedResets: [TestFrame] =
                switch expected[0] {
                case .closed(let id, let code?): [.reset(id, code)]
                case .malformed: [.reset(pair.model.last, .protocolError)]
                default: []
                }
            guard resets == expectedResets else { throw Mismatch("\(frame): \(resets)") }
        case .resetSent(let id, let code):
            guard events == [], resets == [.reset(id, code)] else { throw Mismatch("\(frame): \(events), \(resets)") }
        case .failure(let code):
            guard events == [.failed(code)], output.last == .goAway(last: pair.model.last, code) else {
                throw Mismatch("\(frame): \(events) instead of a failure with \(code), \(output)")
            }
            return true
        }
        noteWindows(output, &pair)
        return false
    }

    /// Applies the connection's WINDOW_UPDATE frames to the windows of the model.
    private static func noteWindows(_ frames: [TestFrame], _ pair: inout Pair) {
        for frame in frames where frame.type == 8 {
            if frame.stream == 0 { pair.model.receiveWindow += Int(TestFrame.number(frame.payload)) }
            pair.model.open[frame.stream]?.receiveWindow += Int(TestFrame.number(frame.payload))
        }
    }

    /// Does something that the owner of a connection does.
    private static func act(_ pair: inout Pair) throws(Mismatch) {
        guard let id = pair.model.open.keys.sorted().randomElement(using: &pair.generator) else { return }
        let slot = pair.test.slot(id)
        switch pair.below(12) {
        case 0:
            pair.test.connection.finish(slot)
            pair.model.finish(id)
        case 1:
            pair.test.connection.reset(slot, .internalError)
            pair.model.abort(id)
        case 2, 3, 4, 5:
            let held = pair.model.open[id]?.held ?? 0
            let count = pair.below(2) == 0 ? held : pair.below(held + 1)
            pair.test.connection.consumed(count, on: slot)
            pair.model.open[id]?.held -= count
        case 6, 7, 8:
            let pending = pair.below(50_000)
            pair.test.connection.setPending(pending, on: slot)
            pair.model.open[id]?.pending = pending
        default:
            try sendTurns(&pair)
        }
        noteWindows(pair.test.output(), &pair)
    }

    private static func sendTurns(_ pair: inout Pair) throws(Mismatch) {
        for turn in pair.test.sendBodies(turns: 1 + pair.below(8)) {
            let parts = turn.split(separator: ":").compactMap { Int($0) }
            let (id, count) = (UInt32(parts[0]), parts[1])
            guard let stream = pair.model.open[id], count > 0, count <= stream.pending, count <= stream.sendWindow,
                count <= pair.model.sendWindow, count <= 16_375
            else { throw Mismatch("turn \(turn) is not permitted") }
            pair.model.open[id]?.sendWindow -= count
            pair.model.open[id]?.pending -= count
            pair.model.sendWindow -= count
        }
    }

    /// Compares all state.
    private static func check(_ pair: Pair) throws(Mismatch) {
        let test = pair.test
        guard test.connection.streamCount == pair.model.open.count, test.connection.streamCount <= streamLimit else {
            throw Mismatch("\(test.connection.streamCount) streams instead of \(pair.model.open.count)")
        }
        guard test.connection.sendWindow == pair.model.sendWindow else { throw Mismatch("other send window") }
        guard test.connection.receiveWindow == pair.model.receiveWindow else { throw Mismatch("other receive window") }
        guard test.connection.lastStreamID == pair.model.last else { throw Mismatch("other last stream") }
        var held = 0
        for (id, stream) in pair.model.open {
            let slot = test.slot(id)
            guard slot >= 0 else { throw Mismatch("stream \(id) is not open") }
            let record = test.connection.streams[slot]
            guard record.sendWindow == stream.sendWindow, record.receiveWindow == stream.receiveWindow,
                record.receiveWindow >= 0, record.heldBytes == stream.held, record.isRemoteEnded == stream.isRemoteEnded
            else { throw Mismatch("stream \(id): \(record) instead of \(stream)") }
            // Everything that was not announced or held may be sent.
            guard record.receiveWindow + record.heldBytes + record.unacknowledgedBytes == streamWindow else {
                throw Mismatch("stream \(id) loses window: \(record)")
            }
            held += record.heldBytes
        }
        let total = test.connection.receiveWindow + test.connection.unacknowledgedBytes + held
        guard total == 65_535, test.connection.receiveWindow >= 0 else {
            throw Mismatch("the connection's window is \(total) in all")
        }
    }

    /// A message as an error.
    private struct Mismatch: Error {
        var text: String
        init(_ text: String) { self.text = text }
    }

    @Test("Random frames and actions: the same events, resets and windows", arguments: 1...12 as ClosedRange<UInt64>)
    func random(_ seed: UInt64) {
        var pair = Pair(seed: seed)
        var steps = 0
        var failures = 0
        do throws(Mismatch) {
            while steps < 4_000 {
                // The budget has its own tests.
                pair.test.now += 10_000_000_000
                if try Self.receive(&pair) {
                    failures += 1
                    let next = pair.generator
                    pair = Pair(seed: 0)
                    pair.generator = next
                }
                if pair.below(2) == 0 { try Self.act(&pair) }
                try Self.check(pair)
                steps += 1
            }
        } catch {
            Issue.record("seed \(seed), step \(steps): \(error.text)")
        }
        #expect(failures > 0)
    }

    @Test(
        "The budget ends every random flood within a bounded number of frames", arguments: 1...10 as ClosedRange<UInt64>
    )
    func floods(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let test = TestConnection(open: 1, streams: 3)
        // A fixed mix of frames that are useless.
        let kinds = (0..<3).map { _ in Int.random(in: 0..<7, using: &generator) }
        var id: UInt32 = 3
        for count in 0..<20_000 {
            let frames: [TestFrame]
            switch kinds[count % 3] {
            case 0: frames = [.ping()]
            case 1: frames = [.settings()]
            case 2: frames = [.priority(9)]
            case 3: frames = [.data(1, [])]
            case 4: frames = [TestFrame(0x55)]
            case 5: frames = [.windowUpdate(0, 1)]
            default:
                frames = [test.headers(id, end: true), .reset(id)]
                id += 2
            }
            let events = test.send(frames)
            _ = test.output()
            if events.contains(.failed(.enhanceYourCalm)) { return }
        }
        Issue.record("seed \(seed): the flood was not ended")
    }
}
