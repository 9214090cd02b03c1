import CloakroomCore
import NIOCore
import NIOSSL

/// Finds the server and makes a connection to it that is good for use: signed in, told of changes, and with a primary.
struct ValkeyConnector: Sendable {
    private let plan: ValkeyPlan
    private let tls: NIOSSLContext?
    private let eventLoop: any EventLoop

    init(_ plan: ValkeyPlan, tls: NIOSSLContext?, eventLoop: any EventLoop) {
        self.plan = plan
        self.tls = tls
        self.eventLoop = eventLoop
    }

    /// One attempt. Addresses are tried in turn; the error is the last one's that says something.
    func connect() async throws(ValkeyLoss) -> ValkeyConnection {
        var loss = ValkeyLoss.unreachable
        for address in plan.addresses where !Task.isCancelled {
            do {
                guard let name = plan.sentinelPrimary else { return try await server(address) }
                return try await server(try await primary(name, sentinel: address))
            } catch {
                if loss == .unreachable || loss == .noPrimary { loss = error }
            }
        }
        throw loss
    }

    /// Connects to a server and makes sure that it is the right one.
    private func server(_ address: HostAndPort) async throws(ValkeyLoss) -> ValkeyConnection {
        var unfit: Set<String> = ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH"]
        // Behind sentinels a primary without replicas may be one that was replaced; elsewhere it is what there is.
        if plan.sentinelPrimary != nil { unfit.insert("NOREPLICAS") }
        let connection = try await ValkeyConnection.connect(
            host: address.host, port: address.port, options: options(unfit), on: eventLoop)
        do throws(ValkeyLoss) {
            try await signIn(connection)
            return connection
        } catch {
            connection.close(error)
            throw error
        }
    }

    private func signIn(_ connection: ValkeyConnection) async throws(ValkeyLoss) {
        // A gateway that stops does not wait for a server that does not answer.
        let result: Result<Void, ValkeyLoss> = await withTaskCancellationHandler {
            do throws(ValkeyLoss) { return .success(try await greet(connection)) } catch { return .failure(error) }
        } onCancel: {
            connection.close(.closed)
        }
        try result.get()
    }

    private func greet(_ connection: ValkeyConnection) async throws(ValkeyLoss) {
        var hello: [ValkeyCommand.Part] = ["3"]
        if let password = plan.password {
            hello += ["AUTH", .text(plan.user ?? "default"), .bytes(password.bytes)]
        }
        _ = try await ask(ValkeyCommand("HELLO", hello + ["SETNAME", "cloakroom"]), connection)
        // Own changes are known here anyway. The scripts see to it that a key stays watched when it is changed from here.
        _ = try await ask(ValkeyCommand("CLIENT", "TRACKING", "ON", "NOLOOP"), connection)
        _ = try await ask(ValkeyCommand("PING"), connection)
        let role: RESPValue
        do throws(ValkeyLoss) {
            role = try await ask(ValkeyCommand("ROLE"), connection)
        } catch {
            // Services that hide the role lead to the primary themselves. Behind sentinels nobody else makes sure.
            guard plan.sentinelPrimary == nil, case .unauthorized = error else { throw error }
            return
        }
        if role.elements?.first?.text != "master" { throw .unfit(code: "READONLY") }
    }

    /// Asks a sentinel where the primary is.
    private func primary(_ name: String, sentinel: HostAndPort) async throws(ValkeyLoss) -> HostAndPort {
        let connection = try await ValkeyConnection.connect(
            host: sentinel.host, port: sentinel.port, options: options([]), on: eventLoop)
        defer { connection.close(.closed) }
        if let password = plan.sentinelPassword {
            _ = try await ask(ValkeyCommand("AUTH", .bytes(password.bytes)), connection)
        }
        let answer = try await ask(ValkeyCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", .text(name)), connection)
        guard let elements = answer.elements, elements.count == 2, let host = elements[0].text,
            let port = elements[1].text.flatMap({ UInt16($0) })
        else { throw .noPrimary }
        return HostAndPort(host: host, port: Int(port))
    }

    private func options(_ unfit: Set<String>) -> ValkeyConnection.Options {
        ValkeyConnection.Options(
            timeout: TimeAmount(plan.timeout), tls: tls,
            serverName: plan.tls?.serverName, unfitCodes: unfit)
    }

    /// Sends one command of those that come before a connection is good for use.
    private func ask(_ command: ValkeyCommand, _ connection: ValkeyConnection) async throws(ValkeyLoss) -> RESPValue {
        let timeout = ValkeyConnection.patience(TimeAmount(plan.timeout))
        switch await connection.send([command], timeout: timeout).first {
        case .success(let value): return value
        case .failure(.refused(let error)): throw Self.loss(error, command)
        case .failure, nil:
            // A command that was lost was so because the connection ended, and that knows why.
            connection.close(.unreachable)
            throw (try? await connection.closed.get()) ?? .unreachable
        }
    }

    private static func loss(_ error: RESPError, _ command: ValkeyCommand) -> ValkeyLoss {
        switch error.code {
        case "NOAUTH", "WRONGPASS", "NOPERM": .unauthorized(code: error.code, command: command.name)
        case "ERR", "NOPROTO":
            command.name == "AUTH" ? .unauthorized(code: "WRONGPASS", command: command.name) : .tooOld(code: error.code)
        default: .unfit(code: error.code)
        }
    }
}
