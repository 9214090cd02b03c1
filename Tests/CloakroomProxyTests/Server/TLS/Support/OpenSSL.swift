import Foundation
import TestSupport

/// Handshakes with the OpenSSL command line.
enum OpenSSL {
    /// Runs `openssl s_client` until the server closes the connection.
    /// - Parameter input: Sent after the server's greeting; it should make the server close the connection.
    /// - Returns: The complete output.
    static func client(port: Int, _ arguments: [String], input: String = "bye\n") async throws -> String {
        let (typed, printed) = (Pipe(), Pipe())
        let end = printed.fileHandleForWriting.fileDescriptor
        let process = try ChildProcess(
            "openssl", ["s_client", "-connect", "127.0.0.1:\(port)"] + arguments,
            input: .descriptor(typed.fileHandleForReading.fileDescriptor), output: .descriptor(end),
            errors: .descriptor(end))
        try typed.fileHandleForReading.close()
        try printed.fileHandleForWriting.close()
        // Reading blocks, so it runs on its own thread.
        let output = await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                var data = Data()
                var isTyped = false
                while case let piece = printed.fileHandleForReading.availableData, !piece.isEmpty {
                    data += piece
                    if !isTyped, String(decoding: data, as: UTF8.self).contains("protocol=") {
                        try? typed.fileHandleForWriting.write(contentsOf: Data(input.utf8))
                        isTyped = true
                    }
                }
                continuation.resume(returning: String(decoding: data, as: UTF8.self))
            }
        }
        try typed.fileHandleForWriting.close()
        await process.ends()
        return output
    }
}
