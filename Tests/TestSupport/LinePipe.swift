import Foundation
import Glibc

/// A pipe for log lines.
package struct LinePipe: Sendable {
    /// The descriptor to read from.
    package let readEnd: Int32
    /// The descriptor to write to.
    package let writeEnd: Int32

    private struct CannotOpen: Error {}
    private struct NotAnObject: Error {}

    /// Opens a pipe.
    package init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw CannotOpen() }
        readEnd = ends[0]
        writeEnd = ends[1]
    }

    /// Closes the descriptor to read from.
    package func closeReadEnd() { close(readEnd) }

    /// Closes the descriptor to write to.
    package func closeWriteEnd() { close(writeEnd) }

    /// Lets writes to a full pipe fail.
    package func setNonBlocking() {
        _ = fcntl(writeEnd, F_SETFL, fcntl(writeEnd, F_GETFL) | O_NONBLOCK)
    }

    /// All bytes until the write end is closed, read by a dedicated thread; closes the read end.
    package func readToEnd() async -> [UInt8] {
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

    /// All text, after the shutdown of the writer.
    package func text() async -> String {
        closeWriteEnd()
        return String(decoding: await readToEnd(), as: UTF8.self)
    }

    /// The lines as JSON objects, after the shutdown of the writer.
    package func objects() async throws -> [[String: Any]] {
        closeWriteEnd()
        return try await readToEnd().split(separator: UInt8(ascii: "\n")).map { line in
            guard let object = try JSONSerialization.jsonObject(with: Data(line)) as? [String: Any] else {
                throw NotAnObject()
            }
            return object
        }
    }
}
