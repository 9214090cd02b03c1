import Foundation
import NIOCore
import TestSupport

/// A client that sends HTTP/2 frames as bytes, and keeps to the server's windows or not (RFC 9113 §4.1, §5.2).
final class RawHTTP2Client {
    private let peer: RawPeer
    private var connectionWindow = 65_535
    private var initialWindow = 65_535
    /// The window of each stream beyond the initial one; negative after data was sent.
    private var windows: [UInt32: Int] = [:]
    /// The number of streams that the server has ended or reset.
    private(set) var endedCount = 0
    private(set) var pongCount = 0

    private init(_ peer: RawPeer) {
        self.peer = peer
    }

    /// Connects, sends the preface, and waits for the server's settings.
    /// - Parameter settings: Identifiers and values (RFC 9113 §6.5.2).
    static func connect(port: Int, settings: [(UInt16, UInt32)] = []) async throws -> RawHTTP2Client {
        let client = RawHTTP2Client(try await RawPeer.connect(port: port, allowsHalfClosure: false))
        let values = settings.flatMap { bytes(of: UInt64($0.0), 2) + bytes(of: UInt64($0.1), 4) }
        // The largest window of the connection: responses do not wait for window updates.
        client.send(
            Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4, values)
                + frame(8, bytes(of: 0x7fff_ffff - 65_535, 4)))
        _ = try await client.peer.take("settings") { unread, isClosed in
            client.takeFrames(&unread) > 0 || isClosed ? true : nil
        }
        client.send(frame(4, flags: 1))
        return client
    }

    var isClosed: Bool { peer.isClosed }

    func send(_ bytes: [UInt8]) {
        peer.send(ByteBuffer(bytes: bytes))
    }

    func close() async throws {
        try? await peer.close()
    }

    /// Processes the frames that have arrived.
    func update() async throws {
        _ = try await peer.take("frames") { unread, _ in self.takeFrames(&unread) }
    }

    /// Waits until the server has ended or reset a number of streams since the connection began, or has closed it.
    func ended(_ count: Int) async throws {
        try await eventually("the end of \(count) streams") {
            try await update()
            return endedCount >= count || isClosed
        }
    }

    /// Waits until the server has processed everything sent so far, or has closed the connection.
    func settle() async throws {
        let before = pongCount
        send(Self.frame(6, Array(repeating: 1, count: 8)))
        try await eventually("a ping acknowledgement") {
            try await update()
            return pongCount > before || isClosed
        }
    }

    /// Sends as much of a body as the windows of a stream and the connection allow.
    /// - Parameter limit: The maximum number of bytes.
    /// - Returns: The number of bytes sent.
    func upload(_ stream: UInt32, upTo limit: Int) -> Int {
        let room = min(limit, connectionWindow, initialWindow + windows[stream, default: 0])
        guard room > 0 else { return 0 }
        connectionWindow -= room
        windows[stream, default: 0] -= room
        send(Self.frame(0, stream: stream, Array(repeating: 0x61, count: room)))
        return room
    }

    /// - Returns: The number of frames.
    private func takeFrames(_ unread: inout ByteBuffer) -> Int {
        var count = 0
        while let head = unread.getBytes(at: unread.readerIndex, length: 9) {
            let length = Self.number(head[0..<3])
            guard unread.readableBytes >= 9 + length else { break }
            unread.moveReaderIndex(forwardBy: 9)
            take(head[3], flags: head[4], UInt32(Self.number(head[5..<9])), unread.readBytes(length: length) ?? [])
            count += 1
        }
        return count
    }

    private func take(_ type: UInt8, flags: UInt8, _ stream: UInt32, _ payload: [UInt8]) {
        switch type {
        case 0, 1: if flags & 1 != 0 { endedCount += 1 }
        case 3: endedCount += 1
        case 4 where flags & 1 == 0:
            for start in stride(from: 0, to: payload.count - 5, by: 6)
            where Self.number(payload[start..<(start + 2)]) == 4 {
                initialWindow = Self.number(payload[(start + 2)..<(start + 6)])
            }
        case 6: pongCount += 1
        case 8 where stream == 0: connectionWindow += Self.number(payload[...])
        case 8: windows[stream, default: 0] += Self.number(payload[...])
        default: break
        }
    }

    // MARK: - Frames

    static func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        bytes(of: UInt64(payload.count), 3) + [type, flags] + bytes(of: UInt64(stream), 4) + payload
    }

    /// A request without a body, or the head of one with a body, in a HEADERS frame.
    static func request(
        _ stream: UInt32, _ path: String, method: String = "GET", ends: Bool = true, more block: [UInt8] = []
    ) -> [UInt8] {
        frame(1, flags: ends ? 5 : 4, stream: stream, self.block(path, method: method) + block)
    }

    /// A header block of literals that are not indexed (RFC 7541 §6.2.2).
    static func block(_ path: String, method: String = "GET") -> [UInt8] {
        [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
            .flatMap { field($0.0, $0.1) }
    }

    /// A field of at most 126 bytes each for name and value.
    static func field(_ name: String, _ value: String) -> [UInt8] {
        [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
    }

    static func bytes(of number: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int {
        bytes.reduce(0) { $0 << 8 | Int($1) }
    }
}

extension ChildProgram {
    /// The CPU time used so far by all threads.
    var cpuTime: Duration {
        get throws {
            let tasks = "/proc/\(processIdentifier)/task"
            let nanoseconds = try FileManager.default.contentsOfDirectory(atPath: tasks).map { task in
                let line = try? String(contentsOfFile: "\(tasks)/\(task)/schedstat", encoding: .utf8)
                return line?.split(separator: " ").first.flatMap { Int64($0) } ?? 0
            }
            return .nanoseconds(nanoseconds.reduce(0, +))
        }
    }

    /// The resident memory in bytes.
    var residentBytes: Int {
        get throws {
            let line = try String(contentsOfFile: "/proc/\(processIdentifier)/statm", encoding: .utf8)
            return (line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 4_096
        }
    }
}
