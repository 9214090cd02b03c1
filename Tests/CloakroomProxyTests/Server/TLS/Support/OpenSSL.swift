import Foundation

/// Handshakes with the OpenSSL command line.
enum OpenSSL {
    /// Creates an RSA key and a certificate that is signed with it.
    static func makeRSACertificate(name: String, certificateFile: String, keyFile: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=\(name)",
            "-addext", "subjectAltName=DNS:\(name)", "-keyout", keyFile, "-out", certificateFile,
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
    }

    /// Runs `openssl s_client` until the server closes the connection.
    /// - Parameter input: Sent after the server's greeting; it should make the server close the connection.
    /// - Returns: The complete output.
    static func client(port: Int, _ arguments: [String], input: String = "bye\n") async throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl", "s_client", "-connect", "127.0.0.1:\(port)"] + arguments
        let (typed, printed) = (Pipe(), Pipe())
        process.standardInput = typed
        process.standardOutput = printed
        process.standardError = printed
        try process.run()
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
        process.waitUntilExit()
        return output
    }
}
