import Foundation
import Glibc

/// A pipe with a ``LogWriter`` at its write end.
struct LinePipe: Sendable {
    let readEnd: Int32
    let writeEnd: Int32

    struct CannotOpen: Error {}

    init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw CannotOpen() }
        readEnd = ends[0]
        writeEnd = ends[1]
    }

    func closeReadEnd() { close(readEnd) }

    func closeWriteEnd() { close(writeEnd) }

    func setNonBlocking() {
        _ = fcntl(writeEnd, F_SETFL, fcntl(writeEnd, F_GETFL) | O_NONBLOCK)
    }

    /// All bytes until the write end is closed, read by a dedicated thread; closes the read end.
    func readToEnd() async -> [UInt8] {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { [readEnd] in
                var bytes: [UInt8] = []
                var chunk = [UInt8](repeating: 0, count: 4_096)
                while true {
                    let count = chunk.withUnsafeMutableBytes { read(readEnd, $0.baseAddress, $0.count) }
                    guard count > 0 else { break }
                    bytes += chunk.prefix(count)
                }
                close(readEnd)
                continuation.resume(returning: bytes)
            }
        }
    }

    /// The lines as JSON objects, after the shutdown of the writer.
    func objects() async throws -> [[String: Any]] {
        closeWriteEnd()
        let lines = await readToEnd().split(separator: UInt8(ascii: "\n"))
        return try lines.map { line in
            guard let object = try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any] else {
                throw CannotOpen()
            }
            return object
        }
    }
}
