import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Storage of frames, for reads of every size")
struct FrameStorageTests {
    /// Frames of an upstream that could be sent for ever.
    private static let upstreamFrames: [[TestFrame]] = [
        [.ping()], [TestFrame(0x55, stream: 1, [UInt8](repeating: 3, count: 900))],
        [.data(1, [UInt8](repeating: 1, count: 16_384))], [.data(1, [1], padding: 200)],
        [TestFrame(1, flags: 4, stream: 1, [UInt8](repeating: 1, count: 300))],
        [
            TestFrame(1, flags: 0, stream: 1, [UInt8](repeating: 1, count: 3_000)),
            TestFrame(9, flags: 4, stream: 1, [UInt8](repeating: 1, count: 2_000)),
        ],
        [.windowUpdate(0, 1_000), .settings([3: 100])],
    ]

    @Test("Rule 77: frames and header blocks of an upstream, in all splits", arguments: upstreamFrames)
    func upstream(frames: [TestFrame]) throws {
        let unit = frames.flatMap(\.bytes)
        try StorageProperty.check(PeerStream { _ in unit }) {
            var intake = FrameIntake(now: 0)
            var now: UInt64 = 0
            return { read in
                var read = read
                intake.receive(&read)
                // Each read is in a window of its own: the budget does not end the stream.
                now += 2 * AbuseBudget.window
                do {
                    while try intake.next(now: now) != nil {}
                } catch FrameIntake.Problem.tooManyFrames {
                    return nil
                }
                return intake.storage
            }
        }
    }

    @Test("Rule 77: a header block of an upstream keeps at most four times its limit")
    func upstreamBlock() throws {
        let frame = TestFrame(9, flags: 0, stream: 1, [UInt8](repeating: 2, count: 16_000)).bytes
        let start = TestFrame(1, flags: 0, stream: 1, [1]).bytes
        try StorageProperty.check(
            PeerStream(start: start) { _ in frame }, bound: 4 * FrameIntake.maximumBlock
        ) {
            var intake = FrameIntake(now: 0)
            return { read in
                var read = read
                intake.receive(&read)
                do {
                    while try intake.next(now: 0) != nil {}
                } catch FrameIntake.Problem.headerBlockTooLarge {
                    return nil
                }
                return intake.storage
            }
        }
    }

    @Test("Rule 77: header blocks of a client, in all splits: input, block, table and head")
    func clientBlocks() throws {
        let settings = TestFrame.settings([:]).bytes
        // Literals that are added to the dynamic table, each with another value.
        let stream = PeerStream(start: TestFrame.preface + settings) { index in
            let name = Array("x-\(100_000 + index)".utf8)
            var block: [UInt8] = [0x82, 0x86, 0x84, 0x41, 1, 0x61]
            let line = [0x40, UInt8(name.count)] + name + [100] + [UInt8](repeating: 0x61, count: 100)
            for _ in 0..<20 { block += line }
            let id = UInt32(2 * index + 1)
            return TestFrame(1, flags: 1, stream: id, Array(block.prefix(1_200))).bytes
                + TestFrame(9, flags: 4, stream: id, Array(block.dropFirst(1_200))).bytes
        }
        let limits = HeadLimits()
        // The input; a block of 2,226 bytes; the table, whose limit is 4,096; the head.
        let bound = StorageProperty.ordinaryBound(unread: stream.unit) + 4_096 + 4 * 4_096 + 8_192
        try StorageProperty.check(stream, bound: bound) {
            let session = ClientSession(limits: limits)
            return { session.receive($0) }
        }
    }

    /// The server's side of a connection that resets each request at once.
    private final class ClientSession {
        private var connection: HTTP2Connection
        private var input = ByteBuffer()
        private var head = RequestHead()
        private var now: UInt64 = 0

        init(limits: HeadLimits) {
            connection = HTTP2Connection(
                HTTP2ConnectionConfiguration(headLimits: limits, concurrentStreams: 100), now: 0)
        }

        func receive(_ read: ByteBuffer) -> Int? {
            input.writeImmutableBuffer(read)
            now += 2 * AbuseBudget.window
            while true {
                switch connection.next(&input, head: &head, now: now) {
                case .needsInput:
                    input.releaseReadStorage()
                    connection.output.clear()
                    return input.storageCapacity + connection.receivedStorage + head.bytes.storageCapacity
                case .request(let slot, _, _): connection.reset(slot, .cancel)
                case .failed(let code):
                    Issue.record("the connection ended with \(code)")
                    return nil
                default: break
                }
            }
        }
    }
}
