import ArgumentParser
import Foundation
import MockAPI

/// The second process of the demo: writes its certificate and configuration, serves the mock API, prints the
/// addresses once the gateway is ready, and removes the files after the gateway has ended.
///
/// Its standard input is a socket to ``Demo``, which becomes the gateway. It gets the folder, once the mock API listens.
struct DemoBackend: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: name, shouldDisplay: false)
    static let name = "demo-backend"

    @OptionGroup var options: DemoOptions

    static func configurationFile(in folder: String) -> String { folder + "/cloakroom.yaml" }
    static func notifySocket(in folder: String) -> String { folder + "/notify" }

    func run() async throws {
        let certificate = try DemoCertificate()
        defer { certificate.remove() }
        let provider = options.provider
        var settings = MockAPISettings.demo
        settings.port = options.apiPort
        settings.exposeObservations = true
        if let provider {
            settings.identities = [provider.name]
            settings.userField = DemoConfiguration.userField
        }
        try await MockAPI(settings: settings).whileServing { api in
            let configuration = DemoConfiguration(
                port: try Loopback.reserved(options.port), clearPort: try Loopback.reserved(options.clearPort),
                adminPort: try Loopback.reserved(options.adminPort), apiPort: api.port, apiToken: settings.apiToken,
                certificateFile: certificate.certificateFile, keyFile: certificate.keyFile, provider: provider)
            let folder = certificate.directory.path
            try Data(configuration.yaml.utf8).write(to: URL(fileURLWithPath: Self.configurationFile(in: folder)))
            let notifications = try Loopback.datagrams(at: Self.notifySocket(in: folder))
            try FileHandle.standardInput.write(contentsOf: Data(folder.utf8))
            await withCheckedContinuation { ended in
                // A thread of its own, because it blocks.
                Thread.detachNewThread {
                    Self.watchGateway(notifications) { configuration.printAddresses() }
                    ended.resume()
                }
            }
        }
    }

    /// Blocks until the gateway has ended.
    /// - Parameters:
    ///   - notifications: The socket on which the gateway reports its state, as to systemd.
    ///   - onReady: Called once, when all listeners of the gateway are bound. A reload reports readiness again.
    private static func watchGateway(_ notifications: Int32, onReady: () -> Void) {
        var sockets = [STDIN_FILENO, notifications].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var message = [UInt8](repeating: 0, count: 4_096)
        var isReady = false
        while sockets[0].revents == 0 {
            _ = poll(&sockets, 2, -1)
            guard sockets[1].revents != 0 else { continue }
            let count = recv(notifications, &message, message.count, 0)
            let state = String(decoding: message.prefix(max(count, 0)), as: UTF8.self)
            guard !isReady, state.hasPrefix("READY=1\n") else { continue }
            isReady = true
            onReady()
        }
    }
}

/// Sockets that the demo prepares for the gateway. They stay open until this process ends.
private enum Loopback {
    /// A port for the gateway: this one, or a free one instead of 0.
    ///
    /// A socket that does not listen keeps a free port from all programs that ask for one. The gateway can bind it too,
    /// because both set SO_REUSEADDR.
    static func reserved(_ port: Int) throws -> Int {
        guard port == 0 else { return port }
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var isShared: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isShared, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutableBytes(of: &address) { bytes in
            let pointer = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
            return bind(descriptor, pointer, length) == 0 ? getsockname(descriptor, pointer, &length) : -1
        }
        guard result == 0 else { throw DemoError.last("a free port") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// A socket that receives datagrams at a path.
    static func datagrams(at path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw DemoError("\(path) is too long for a socket (set TMPDIR to a shorter path)")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafeMutableBytes(of: &address) { bytes in
            bind(descriptor, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count))
        }
        guard result == 0 else { throw DemoError.last(path) }
        return descriptor
    }
}
