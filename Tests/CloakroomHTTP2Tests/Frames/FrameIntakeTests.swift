import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Frames of an HTTP/2 server, before they are decoded")
struct FrameIntakeTests {
    /// An intake whose parts are returned as bytes.
    private struct Fixture {
        var intake = FrameIntake(now: 0)

        mutating func receive(_ bytes: [UInt8], now: UInt64 = 0) throws -> [[UInt8]] {
            var buffer = ByteBuffer(bytes: bytes)
            intake.receive(&buffer)
            var parts: [[UInt8]] = []
            while let part = try intake.next(now: now) { parts.append(Array(part.readableBytesView)) }
            return parts
        }

        mutating func receive(_ frames: TestFrame..., now: UInt64 = 0) throws -> [[UInt8]] {
            try receive(frames.flatMap(\.bytes), now: now)
        }
    }

    private static func headers(_ count: Int, flags: UInt8 = 4) -> TestFrame {
        TestFrame(1, flags: flags, stream: 1, [UInt8](repeating: 1, count: count))
    }

    private static func continuation(_ count: Int, ends: Bool) -> TestFrame {
        TestFrame(9, flags: ends ? 4 : 0, stream: 1, [UInt8](repeating: 2, count: count))
    }

    private static func unknown(_ count: Int) -> TestFrame {
        TestFrame(0x55, stream: 1, [UInt8](repeating: 3, count: count))
    }

    @Test("A read that ends with a frame or inside a DATA frame is passed on as it is")
    func ordinaryReads() throws {
        var fixture = Fixture()
        let frames = TestFrame.settings([3: 100]).bytes + Self.headers(50).bytes + TestFrame.data(1, count: 900).bytes
        try expect(fixture.receive(frames), equals: [frames])
        expect(fixture.intake.storage, equals: 0)
        let start = frames + Array(TestFrame.data(1, count: 900).bytes.prefix(10))
        try expect(fixture.receive(start), equals: [start])
        expect(fixture.intake.storage, equals: 0)
        let end = Array(TestFrame.data(1, count: 900).bytes.dropFirst(10)) + frames
        try expect(fixture.receive(end), equals: [end])
    }

    @Test("Only whole frames and header blocks are passed on, wherever the reads end; unknown frames are dropped")
    func wholeFrames() throws {
        let known: [[TestFrame]] = [
            [.settings([3: 100])], [Self.headers(30, flags: 0), Self.continuation(20, ends: false)],
            [Self.continuation(5, ends: true), .data(1, [1, 2, 3], padding: 7), .data(1, [], end: true), .ping()],
        ]
        let bytes =
            Self.unknown(0).bytes + known[0].flatMap(\.bytes) + Self.unknown(70).bytes
            + (known[1] + known[2]).flatMap(\.bytes) + Self.unknown(3).bytes
        for size in 1...bytes.count {
            var fixture = Fixture()
            var parts: [[UInt8]] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                parts += try fixture.receive(Array(bytes[start..<min(start + size, bytes.count)]))
            }
            expect(parts.flatMap { $0 }, equals: known.flatMap { $0.flatMap(\.bytes) }, "reads of \(size) bytes")
            for part in parts {
                let (frames, rest) = TestFrame.parse(part)
                expect(rest, equals: 0)
                let last = try require(frames.last)
                expect(![1, 9].contains(last.type) || last.flags & 4 != 0, "reads of \(size) bytes")
            }
        }
    }

    @Test("The header of a DATA frame is passed on with its first byte")
    func dataHeader() throws {
        var fixture = Fixture()
        let bytes = TestFrame.data(1, count: 20).bytes
        try expect(fixture.receive(TestFrame.ping().bytes + Array(bytes[..<9])), equals: [TestFrame.ping().bytes])
        try expect(fixture.receive(Array(bytes[9..<10])), equals: [Array(bytes[..<10])])
        try expect(fixture.receive(Array(bytes[10...])), equals: [Array(bytes[10...])])
    }

    @Test("Invalid frames end the connection after the frames before them")
    func invalid() throws {
        let blocks = (0..<7).flatMap { _ in Self.continuation(16_384, ends: false).bytes }
        let cases: [([UInt8], FrameIntake.Problem)] = [
            (Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), .frameTooLarge),
            (Array(Self.unknown(16_385).bytes.prefix(9)), .frameTooLarge),
            (Self.headers(10, flags: 0).bytes + TestFrame.ping().bytes, .interruptedHeaderBlock),
            (Self.headers(10, flags: 0).bytes + Self.unknown(1).bytes, .interruptedHeaderBlock),
            (Self.headers(16_384, flags: 0).bytes + blocks, .headerBlockTooLarge),
        ]
        for (bytes, problem) in cases {
            var fixture = Fixture()
            var buffer = ByteBuffer(bytes: TestFrame.ping().bytes + bytes)
            fixture.intake.receive(&buffer)
            try expect(fixture.intake.next(now: 0), equals: ByteBuffer(bytes: TestFrame.ping().bytes))
            #expect(throws: problem) { try fixture.intake.next(now: 0) }
        }
    }

    @Test(
        "Frames that transfer nothing are limited: 5,000 small ones, 1,000 empty ones, 200 SETTINGS in 10 s",
        arguments: [
            (Self.unknown(9), 5_000), (TestFrame.ping(), 5_000), (.priority(1), 5_000), (Self.headers(1), 5_000),
            (.windowUpdate(1, 9_999), 5_000), (.data(1, []), 1_000), (.settings([3: 1]), 200),
            (TestFrame(4, [UInt8](repeating: 0, count: 600)), 25),
        ])
    func limits(frame: TestFrame, count: Int) throws {
        var fixture = Fixture()
        for _ in 0..<count { _ = try fixture.receive(frame) }
        #expect(throws: FrameIntake.Problem.tooManyFrames) { try fixture.receive(frame) }
        #expect(throws: Never.self) { try fixture.receive(frame, now: AbuseBudget.window) }
    }

    @Test("What regular servers send with requests and responses is not limited")
    func regularUse() throws {
        var fixture = Fixture()
        for _ in 0..<20_000 {
            fixture.intake.sent(0)
            fixture.intake.sent(16_384)
            // One for the connection and one for the stream, for each 4 KiB.
            for _ in 0..<4 { _ = try fixture.receive(.windowUpdate(0, 4_096), .windowUpdate(1, 4_096)) }
            _ = try fixture.receive(Self.headers(20), .ping(), .data(1, count: 10), .data(1, [], end: true))
        }
    }
}
