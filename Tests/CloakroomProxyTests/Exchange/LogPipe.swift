import Foundation
import Glibc

/// A pipe for log lines.
struct LogPipe: Sendable {
    let writeEnd: Int32
    private let readEnd: Int32

    struct CannotOpen: Error {}

    init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw CannotOpen() }
        readEnd = ends[0]
        writeEnd = ends[1]
        _ = fcntl(readEnd, F_SETFL, O_NONBLOCK)
    }

    /// All text written, once the write end is closed.
    func text() -> String {
        close(writeEnd)
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = chunk.withUnsafeMutableBytes { read(readEnd, $0.baseAddress, $0.count) }
            guard count > 0 else { break }
            bytes += chunk.prefix(count)
        }
        close(readEnd)
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A line of the access log.
struct LogLine {
    private let object: [String: Any]

    init?(_ line: Substring) {
        guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] else {
            return nil
        }
        self.object = object
    }

    /// A member as text, whatever its type.
    subscript(name: String) -> String? {
        object[name].map { "\($0)" }
    }
}
