import CloakroomCore
import NIOCore
import NIOSSL

/// Finds the server and establishes a connection that is ready for use: authenticated, with change tracking, and to a
/// primary.
struct ValkeyConnector: Sendable {
    private let configuration: ValkeyConfiguration
    private let tls: NIOSSLContext?
    private let eventLoop: any EventLoop

    init(_ configuration: ValkeyConfiguration, tls: NIOSSLContext?, eventLoop: any EventLoop) {
        self.configuration = configuration
        self.tls = tls
        self.eventLoop = eventLoop
    }

    /// One attempt. Addresses are tried in turn; the error is the last meaningful one.
    func connect() async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        var loss = ValkeyDisconnectReason.unreachable
        for address in configuration.addresses where !Task.isCancelled {
            do {
                guard let name = configuration.sentinelPrimary else { return try await server(address) }
                return try await server(try await primary(name, sentinel: address))
            } catch {
                if loss == .unreachable || loss == .noPrimary { loss = error }
            }
        }
        throw loss
    }

    /// Opens a further connection to a server, for commands whose keys are not cached.
    func connectUntracked(to address: HostAndPort) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        try await server(address, isTracked: false)
    }

    /// Connects to a server and verifies that it is the right one.
    private func server(
        _ address: HostAndPort, isTracked: Bool = true
    ) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        var unfit: Set<String> = ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH"]
        // With sentinels a primary without replicas may have been replaced; without them it is the only server.
        if configuration.sentinelPrimary != nil { unfit.insert("NOREPLICAS") }
        let connection = try await ValkeyConnection.connect(
            host: address.host, port: address.port, options: options(unfit), on: eventLoop)
        do throws(ValkeyDisconnectReason) {
            try await signIn(connection, isTracked)
            return connection
        } catch {
            connection.close(error)
            throw error
        }
    }

    private func signIn(_ connection: ValkeyConnection, _ isTracked: Bool) async throws(ValkeyDisconnectReason) {
        // A stopping gateway does not wait for a server that does not respond.
        let result: Result<Void, ValkeyDisconnectReason> = await withTaskCancellationHandler {
            do throws(ValkeyDisconnectReason) { return .success(try await sendHello(connection, isTracked)) } catch {
                return .failure(error)
            }
        } onCancel: {
            connection.close(.closed)
        }
        try result.get()
    }

    private func sendHello(_ connection: ValkeyConnection, _ isTracked: Bool) async throws(ValkeyDisconnectReason) {
        var hello: [ValkeyCommand.Part] = ["3"]
        if let password = configuration.password {
            hello += ["AUTH", .text(configuration.user ?? "default"), .bytes(password.bytes)]
        }
        _ = try await ask(ValkeyCommand("HELLO", hello + ["SETNAME", "cloakroom"]), connection)
        // Own changes need no notification. The scripts ensure that a key stays tracked after a change by this process.
        if isTracked { _ = try await ask(ValkeyCommand("CLIENT", "TRACKING", "ON", "NOLOOP"), connection) }
        _ = try await ask(ValkeyCommand("PING"), connection)
        let role: RESPValue
        do throws(ValkeyDisconnectReason) {
            role = try await ask(ValkeyCommand("ROLE"), connection)
        } catch {
            // Services that hide the role route to the primary themselves. With sentinels the role has to be checked
            // here.
            guard configuration.sentinelPrimary == nil, case .unauthorized = error else { throw error }
            return
        }
        if role.elements?.first?.text != "master" { throw .notPrimary(code: "READONLY") }
    }

    /// Asks a sentinel for the address of the primary.
    private func primary(_ name: String, sentinel: HostAndPort) async throws(ValkeyDisconnectReason) -> HostAndPort {
        let connection = try await ValkeyConnection.connect(
            host: sentinel.host, port: sentinel.port, options: options([]), on: eventLoop)
        defer { connection.close(.closed) }
        if let password = configuration.sentinelPassword {
            _ = try await ask(ValkeyCommand("AUTH", .bytes(password.bytes)), connection)
        }
        let response = try await ask(ValkeyCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", .text(name)), connection)
        guard let elements = response.elements, elements.count == 2, let host = elements[0].text,
            let port = elements[1].text.flatMap({ UInt16($0) })
        else { throw .noPrimary }
        return HostAndPort(host: host, port: Int(port))
    }

    private func options(_ unfit: Set<String>) -> ValkeyConnection.Options {
        ValkeyConnection.Options(
            timeout: TimeAmount(configuration.timeout), tls: tls,
            serverName: configuration.tls?.serverName, disconnectCodes: unfit)
    }

    /// Sends one of the commands that make a connection ready.
    private func ask(_ command: ValkeyCommand, _ connection: ValkeyConnection) async throws(ValkeyDisconnectReason)
        -> RESPValue
    {
        let timeout = ValkeyConnection.patience(TimeAmount(configuration.timeout))
        switch await connection.send([command], timeout: timeout).first {
        case .success(let value): return value
        case .failure(.rejected(let error)): throw Self.disconnectReason(error, command)
        case .failure, nil:
            // The command was lost because the connection ended, and the connection has the reason.
            connection.close(.unreachable)
            throw (try? await connection.closed.get()) ?? .unreachable
        }
    }

    private static func disconnectReason(_ error: RESPError, _ command: ValkeyCommand) -> ValkeyDisconnectReason {
        switch error.code {
        case "NOAUTH", "WRONGPASS", "NOPERM": .unauthorized(code: error.code, command: command.name)
        case "ERR", "NOPROTO":
            command.name == "AUTH"
                ? .unauthorized(code: "WRONGPASS", command: command.name) : .unsupportedServer(code: error.code)
        default: .notPrimary(code: error.code)
        }
    }
}
