import CloakroomCore
import Foundation
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The sockets that listen on one address, each of a different gateway. The kernel distributes new connections among
/// them unless a program attached to the group selects a socket (socket(7), `SO_REUSEPORT`).
enum ReuseportGroup {
    /// One of two sockets in a group. The group is ordered by bind time; when the first socket is closed, the second
    /// takes its index.
    enum Slot: UInt32, Sendable {
        case first = 0
        case second = 1
    }

    /// Directs all new connections to one socket of the group. If there is no socket at that index, the kernel
    /// distributes them as before.
    static func steer(to place: Slot, from channel: any Channel) async throws {
        guard let options = channel as? any SocketOptionProvider else { return }
        // The kernel takes a pointer to the program and copies the program during the call; there is no other
        // interface. Without the program about every second handover under load resets connections. The memory is freed
        // after the call.
        let program = UnsafeMutablePointer<Instruction>.allocate(capacity: 1)
        program.initialize(to: Instruction(code: returnsConstant, constant: place.rawValue))
        let address = UInt(bitPattern: program)
        do {
            try await options.unsafeSetSocketOption(
                level: .socket, name: .init(rawValue: SO_ATTACH_REUSEPORT_CBPF),
                value: Program(count: 1, instructions: address)
            ).get()
        } catch {
            UnsafeMutablePointer<Instruction>(bitPattern: address)?.deallocate()
            throw error
        }
        UnsafeMutablePointer<Instruction>(bitPattern: address)?.deallocate()
    }

    /// `BPF_RET
    ///  BPF_K`.
    private static let returnsConstant: UInt16 = 0x06

    /// The layout of `struct sock_filter`.
    private struct Instruction {
        var code: UInt16
        var jumpIfTrue: UInt8 = 0
        var jumpIfFalse: UInt8 = 0
        var constant: UInt32
    }

    /// The layout of `struct sock_fprog`.
    private struct Program: Sendable {
        var count: UInt16
        var instructions: UInt
    }

    // MARK: - Members

    /// Inodes of the sockets that listen on an address, of any process.
    /// - Returns: Empty if the system does not provide them.
    static func members(at address: SocketAddress) -> Set<UInt64> {
        guard let host = address.ipAddress, let bytes = IPAddress.bytes(of: host), let port = address.port else {
            return []
        }
        let path = bytes.count == 4 ? "/proc/net/tcp" : "/proc/net/tcp6"
        // Listening sockets are listed first, so the first 64 KiB are sufficient regardless of the number of
        // connections.
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.read(upToCount: 65_536) else {
            return []
        }
        return members(at: name(bytes, port: port), in: String(decoding: data, as: UTF8.self))
    }

    /// Parses the socket table (proc_pid_net(5)).
    static func members(at name: String, in table: String) -> Set<UInt64> {
        var members: Set<UInt64> = []
        for line in table.split(separator: "\n").dropFirst() {
            let fields = line.split(separator: " ")
            guard fields.count > 9, fields[3] == "0A" else { break }
            if fields[1] == name, let member = UInt64(fields[9]) { members.insert(member) }
        }
        return members
    }

    /// Formats an address as in the table: 4-byte words in host byte order, in hexadecimal.
    static func name(_ address: [UInt8], port: Int) -> String {
        var name = ""
        for start in stride(from: 0, to: address.count, by: 4) {
            let word = address[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) }
            name += hexadecimal(UInt32(bigEndian: word), digits: 8)
        }
        return name + ":" + hexadecimal(UInt32(port), digits: 4)
    }

    private static func hexadecimal(_ number: UInt32, digits: Int) -> String {
        let text = String(number, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(digits - text.count, 0)) + text
    }
}
