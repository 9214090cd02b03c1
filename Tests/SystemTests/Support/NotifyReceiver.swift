import Foundation
import Glibc
import TestSupport

/// The socket of a service manager, as systemd creates it for `NOTIFY_SOCKET`.
final class NotifyReceiver: Sendable {
    private let descriptor: Int32

    /// - Parameter address: A path, or `@` and an abstract name.
    init(_ address: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        var socketAddress = sockaddr_un()
        socketAddress.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &socketAddress.sun_path) { path in
            path.copyBytes(from: address.utf8)
            if address.hasPrefix("@") { path[0] = 0 }
        }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + address.utf8.count)
        let result = withUnsafePointer(to: &socketAddress) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        guard result == 0 else {
            let error = errno
            close(descriptor)
            throw POSIXError(POSIXErrorCode(rawValue: error) ?? .EINVAL)
        }
    }

    deinit { close(descriptor) }

    /// Waits for the next message except watchdog messages.
    func next() async throws -> String {
        try await message { $0 != "WATCHDOG=1" }
    }

    /// Waits for a message, discarding the others.
    func message(where isMeant: @escaping @Sendable (String) -> Bool) async throws -> String {
        try await eventually("a message to the service manager") {
            while let message = self.receive() {
                if isMeant(message) { return message }
            }
            return nil
        }
    }

    private func receive() -> String? {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
