import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

/// The events of a connection and what it sends must not depend on where its input was cut.
@Suite("Input that is cut anywhere")
struct SplitInputTests {
    /// What a client sends in a session with most kinds of frames.
    private static func session() -> [UInt8] {
        let test = TestConnection()
        let post = TestConnection.post + [("content-type", "text/plain"), ("x-a", "1")]
        var frames: [TestFrame] = [.settings([1: 1_000, 4: 100_000, 5: 20_000, 9: 1]), .settingsAcknowledgement]
        frames.append(.windowUpdate(0, 1_000_000))
        frames.append(test.headers(1, end: true))
        frames += test.frames(3, post, size: 7)
        frames += [
            .data(3, "hello, "), .ping(77), .data(3, Array("world".utf8), padding: 20), .data(3, [], padding: 2),
        ]
        frames += test.frames(3, [("x-sum", "1"), ("x-a", "2")], end: true, size: 5)
        frames += [.priority(5), .windowUpdate(1, 5), TestFrame(0x42, flags: 9, stream: 8, [1, 2, 3])]
        frames.append(test.headers(5, post + [("x-b", "2")]))
        frames += [.data(5, "abc"), .reset(5), .settings([4: 50]), .windowUpdate(5, 99)]
        // Malformed, then refused streams.
        frames += [test.headers(7, [("x-a", "1")]), test.headers(9, post), .data(9, "x", end: true), test.headers(11)]
        frames += [.data(11, Array("late".utf8), padding: 9), .ping(1)]
        let padded = test.headers(13, TestConnection.get + [("x-b", "2")], end: true)
        frames.append(TestFrame(1, flags: 0x2d, stream: 13, [3, 0, 0, 0, 0, 9] + padded.payload + [0, 0, 0]))
        frames += [.data(9, "too late"), .goAway(last: 0, .noError), .data(1, "closed"), TestFrame(5, stream: 1, [0])]
        return TestFrame.preface + frames.flatMap(\.bytes)
    }

    /// A connection that reacts to its input in ways that only depend on events.
    private static func connection() -> TestConnection {
        let test = TestConnection(streams: 4, isEstablished: false)
        test.react = { test, event in
            switch event {
            case .request(let slot, _, _):
                test.respond(test.connection.streams.id(at: slot), lines: "server: a\r\n")
            case .data(let slot, let bytes, true):
                test.connection.consumed(bytes.readableBytes, on: slot)
                test.connection.beginData(0, on: slot, endsStream: true)
            case .trailers(let slot, _): test.connection.finish(slot)
            default: break
            }
        }
        return test
    }

    /// Handles bytes in pieces.
    /// - Parameter ends: The end of each piece.
    private static func run(_ bytes: [UInt8], ends: [Int]) -> (events: [SeenEvent], output: [UInt8]) {
        let test = connection()
        var events: [SeenEvent] = []
        var start = 0
        for end in ends + [bytes.count] where end >= start {
            events += test.send(Array(bytes[start..<end]))
            start = end
        }
        return (SeenEvent.joined(events), Array(test.connection.output.readableBytesView))
    }

    /// The first difference between what two runs have seen.
    private static func difference(
        _ left: (events: [SeenEvent], output: [UInt8]), _ right: (events: [SeenEvent], output: [UInt8])
    ) -> String? {
        if left.events != right.events {
            let index = zip(left.events, right.events).prefix { $0 == $1 }.count
            return "events from \(index) on: \(left.events.dropFirst(index)) and \(right.events.dropFirst(index))"
        }
        guard left.output != right.output else { return nil }
        let frames = (TestFrame.parse(left.output).frames, TestFrame.parse(right.output).frames)
        let index = zip(frames.0, frames.1).prefix { $0 == $1 }.count
        return "frames from \(index) on: \(frames.0.dropFirst(index)) and \(frames.1.dropFirst(index))"
    }

    @Test("The session has an event of most kinds, and ends with a failure")
    func session() throws {
        let whole = Self.run(Self.session(), ends: [])
        expect(whole.events.first, equals: .settingsReceived)
        expect(whole.events.last, equals: .failed(.protocolError))
        expect(whole.events.contains(.data(3, "hello, world", end: false)))
        expect(whole.events.contains(.trailers(3, ["x-sum: 1", "x-a: 2"])))
        expect(whole.events.contains(.closed(5, nil)))
        expect(whole.events.contains(.malformed))
        expect(whole.events.contains(.goAwayReceived))
        expect(whole.events.contains(.request(13, "GET /, x-b: 2", end: true)))
        expect(TestFrame.parse(whole.output).rest, equals: 0)
    }

    @Test("Cut at any position, and in single bytes")
    func everyPosition() {
        let bytes = Self.session()
        let whole = Self.run(bytes, ends: [])
        for position in bytes.indices {
            let cut = Self.run(bytes, ends: [position])
            if let difference = Self.difference(cut, whole) {
                Issue.record("\(difference) when cut at \(position)")
                return
            }
        }
        let single = Self.run(bytes, ends: Array(bytes.indices))
        expect(single.events, equals: whole.events)
        expect(single.output, equals: whole.output)
    }

    @Test("Cut at many random positions")
    func randomPositions() {
        var generator = SeededGenerator(seed: 3)
        let bytes = Self.session()
        let whole = Self.run(bytes, ends: [])
        for round in 0..<500 {
            let count = Int.random(in: 2...40, using: &generator)
            let ends = (0..<count).map { _ in Int.random(in: bytes.indices, using: &generator) }.sorted()
            let cut = Self.run(bytes, ends: ends)
            if let difference = Self.difference(cut, whole) {
                Issue.record("round \(round): \(difference) when cut at \(ends)")
                return
            }
        }
    }

    @Test("An incomplete frame stays in the input, a complete one does not")
    func rest() {
        let test = TestConnection()
        let bytes = TestFrame.ping().bytes
        for byte in bytes.dropLast() {
            expect(test.send([byte]), equals: [])
            expect(test.output(), equals: [])
        }
        expect(test.input.readableBytes, equals: bytes.count - 1)
        test.send([bytes[bytes.count - 1]])
        expect(test.input.readableBytes, equals: 0)
        expect(test.output().count, equals: 1)
    }
}
