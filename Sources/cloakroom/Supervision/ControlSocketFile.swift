import CloakroomCore
import CoreFoundation
import Foundation
import Glibc
import NIOCore

/// The file of the control socket. It is accessible only to its owner from the start, does not replace the socket of a
/// running gateway, and is removed only while it is the own one: a gateway that takes over has replaced it.
struct ControlSocketFile: Sendable {
    /// The bound socket.
    let descriptor: Int32
    private let path: String
    private let identity: Identity

    struct Identity: Equatable {
        var device: UInt64
        var inode: UInt64
    }

    /// Binds a socket. The file of a process that has ended is replaced.
    /// - Parameter replacesOther: Whether the socket of a running gateway is replaced.
    /// - Throws: ``ControlSocketError``, or an `IOError`.
    init(_ path: String, replacesOther: Bool) throws {
        self.path = path
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // The last byte remains zero.
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw IOError(errnoCode: ENAMETOOLONG, reason: "bind")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        if !replacesOther, Self.isListening(address) {
            throw ControlSocketError(description: "another gateway listens on it (write another path, or stop it)")
        }
        descriptor = try Self.makeSocket()
        do {
            // On Linux the file gets the mode of the socket, so that no other user can connect in between.
            try Self.succeed(fchmod(descriptor, 0o600), "fchmod")
            // A symbolic link or another file stays, and binding fails.
            if Self.status(path).map({ $0.st_mode & S_IFMT == S_IFSOCK }) ?? false { unlink(path) }
            try Self.succeed(Self.call(bind, descriptor, address), "bind")
            identity = try Self.privateFile(path)
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// Removes the file, unless another gateway has replaced it.
    func remove() {
        guard let status = Self.status(path), Self.identity(status) == identity else { return }
        unlink(path)
    }

    private static func makeSocket() throws -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        try succeed(descriptor, "socket")
        return descriptor
    }

    /// Whether a process accepts connections. One whose queue is full does too.
    private static func isListening(_ address: sockaddr_un) -> Bool {
        guard let descriptor = try? makeSocket() else { return false }
        defer { close(descriptor) }
        return call(connect, descriptor, address) == 0 || errno == EAGAIN
    }

    private static func call(
        _ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ descriptor: Int32, _ address: sockaddr_un
    ) -> Int32 {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// The identity of the file at a path, which must be accessible only to its owner.
    /// - Throws: ``ControlSocketError`` also if another process has put its own file there; an `IOError` if there is none.
    static func privateFile(_ path: String) throws -> Identity {
        guard let status = Self.status(path) else { throw IOError(errnoCode: errno, reason: "lstat") }
        guard isPrivate(mode: status.st_mode, owner: status.st_uid) else {
            throw ControlSocketError(
                description: "other users could use it (write a path in a folder of this user, on a local file system)")
        }
        return identity(status)
    }

    /// Whether a file is a socket that no other user except root can connect to.
    static func isPrivate(mode: mode_t, owner: uid_t) -> Bool {
        mode & S_IFMT == S_IFSOCK && mode & 0o077 == 0 && owner == geteuid()
    }

    /// The status of the file itself, not of what a symbolic link points to.
    private static func status(_ path: String) -> stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }

    private static func identity(_ status: stat) -> Identity {
        Identity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    }

    private static func succeed(_ result: Int32, _ call: String) throws {
        guard result >= 0 else { throw IOError(errnoCode: errno, reason: call) }
    }
}
