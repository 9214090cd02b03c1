import Glibc

/// A listener that takes no connection: its queue is full, so that whoever connects waits.
struct DeafListener: ~Copyable {
    let port: Int
    private let descriptors: [Int32]

    struct CannotListen: Error {}

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var descriptors = [listener]
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 0) == 0
                    && getsockname(listener, address, &length) == 0
            }
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        // Fill the queue, and one more: none of these is ever accepted.
        for _ in 0..<4 where isListening {
            let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            descriptors.append(client)
            withUnsafePointer(to: address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = connect(client, $0, length) }
            }
        }
        self.descriptors = descriptors
        guard isListening else { throw CannotListen() }
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }
}
