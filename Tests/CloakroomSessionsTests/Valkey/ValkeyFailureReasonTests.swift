import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Reasons of failures", .serialized, .timeLimit(.minutes(3)))
struct ValkeyFailureReasonTests {
    private typealias Reason = SessionStoreError.Reason

    @Test(
        "The first word of a server's error decides the reason",
        arguments: [
            ("READONLY You can't write against a read only replica.", .readonly), ("NOREPLICAS Not enough", .readonly),
            ("MISCONF Errors writing to the AOF file", .readonly), ("LOADING Valkey is loading", .loading),
            ("OOM command not allowed when used memory > 'maxmemory'.", .full), ("NOAUTH Authentication", .noAuth),
            ("WRONGPASS invalid username-password pair", .noAuth),
            ("NOPERM this user has no permissions", .noPermission),
            ("ERR ACL failure in script: User gate has no permissions to run the 'set' command script", .noPermission),
            ("ERR The user executing the script can't run this command or subcommand script: 0", .noPermission),
            ("ERR Error running script (0): @user_script:1: The user executing the script can't run", .noPermission),
            ("ERR Error running script (0): @user_script: 1: Wrong number of args", .failed),
            ("CROSSSLOT Keys in request don't hash to the same slot", .crossslot),
            ("CLUSTERDOWN The cluster is down", .clusterDown), ("TRYAGAIN Multiple keys request", .clusterDown),
            ("MOVED 1 127.0.0.1:1", .clusterDown), ("BUSY Valkey is busy running a script", .overloaded),
            ("NOPROTO unsupported protocol version", .unsupported), ("ERR OOM is only a word here", .failed),
            ("", .failed),
        ] as [(String, SessionStoreError.Reason)])
    func codes(line: String, reason: SessionStoreError.Reason) {
        expect(Reason(.rejected(RESPError(line: line))), equals: reason)
        do throws(SessionStoreError) {
            _ = try ValkeyRecordStore.value(.failure(.rejected(RESPError(line: line))))
            Issue.record("no error")
        } catch {
            expect(error.reason, equals: reason)
            expect(error.kind, equals: .unavailable)
        }
    }

    @Test("A lost connection and a missing reply have reasons too")
    func connections() {
        expect(Reason(ValkeyCommandError.notConnected), equals: .unreachable)
        expect(Reason(ValkeyCommandError.disconnected), equals: .unreachable)
        expect(Reason(ValkeyCommandError.overloaded), equals: .overloaded)
        expect(Reason(ValkeyDisconnectReason.timedOut), equals: .timeout)
        expect(Reason(ValkeyDisconnectReason.protocolError), equals: .protocolError)
        expect(Reason(ValkeyDisconnectReason.tls("handshake")), equals: .tls)
        expect(Reason(.unauthorized(code: "NOPERM", command: "CLIENT")), equals: .noPermission)
        expect(Reason(.unauthorized(code: "WRONGPASS", command: "HELLO")), equals: .noAuth)
        expect(Reason(.notPrimary(code: "LOADING")), equals: .loading)
        expect(Reason(.unsupportedServer(code: "NOPROTO")), equals: .unsupported)
        expect(Reason(.wrongTopology(.clusterForSingle)), equals: .wrongTopology)
    }

    @Test("Each reason has a label of its own and advice; errors are equal by kind")
    func labels() {
        let reasons = Reason.allCases
        expect(Set(reasons.map(\.rawValue)).count, equals: reasons.count)
        let letters = Set("abcdefghijklmnopqrstuvwxyz_")
        expect(reasons.allSatisfy { $0.rawValue.allSatisfy(letters.contains) && $0.advice.count > 10 })
        expect(SessionStoreError(.unavailable, reason: .tls), equals: SessionStoreError(.unavailable))
        expect(SessionStoreError(.unavailable).reason, equals: .failed)
        expect(SessionStoreError(.full).reason, equals: .full)
    }

    @Test("A real server's memory limit, missing permission, replica role and changed password are different reasons")
    func realServer() async throws {
        let permissions = ValkeyAccessTests.permissions
        let options = RedisServer.Options(
            program: RedisServer.Options.valkey, configuration: ["user gate on >canary-password \(permissions)"])
        try await withRedis(options) { server in
            let configuration = ValkeyConfiguration(
                addresses: [server.address], user: "gate", password: Secret("canary-password"))
            let replica = try await Replica.up(configuration)
            try await expect(replica.records.insert(.sample()))

            try await server.ask("CONFIG", "SET", "maxmemory", "1")
            await expect(reason { _ = try await replica.records.insert(.sample(2)) }, equals: .full)
            try await server.ask("CONFIG", "SET", "maxmemory", "0")

            try await server.ask("ACL", "SETUSER", "gate", "-hgetall")
            await expect(reason { _ = try await replica.records.read(SessionID(1)) }, equals: .noPermission)
            try await server.ask("ACL", "SETUSER", "gate", "+hgetall")

            try await server.ask("REPLICAOF", "127.0.0.1", "1")
            await expect(reason { _ = try await replica.records.insert(.sample(3)) }, equals: .readonly)
            try await server.ask("REPLICAOF", "NO", "ONE")
            try await replica.isUp()

            try await server.ask("ACL", "SETUSER", "gate", "resetpass", ">the next password")
            try await server.ask("CLIENT", "KILL", "USER", "gate")
            try await eventually("the reason of the missing connection is known") {
                replica.records.link.outage == .noAuth
            }
            await expect(reason { _ = try await replica.records.read(SessionID(1)) }, equals: .unreachable)
            try await server.ask("ACL", "SETUSER", "gate", "resetpass", ">canary-password")
            try await eventually("the record is read again") {
                let found = try? await replica.records.read(SessionID(1))
                return found == .record(.sample())
            }
            expect(replica.records.link.outage, equals: nil)
            await replica.stop()
        }
    }

    private func reason(_ body: () async throws -> Void) async -> SessionStoreError.Reason? {
        do { try await body() } catch { return (error as? SessionStoreError)?.reason }
        return nil
    }

    @Test("The store's callback has the reason of a missing connection")
    func refined() async throws {
        let options = RedisServer.Options(
            program: RedisServer.Options.valkey, configuration: ["requirepass right-password"],
            password: "right-password")
        try await withRedis(options) { server in
            var configuration = Sample.configuration
            configuration.store = .valkey
            configuration.secrets = [Secret("a secret that is long enough for this test")]
            configuration.valkey = ValkeyConfiguration(addresses: [server.address], password: Secret("wrong"))
            let log = RecordedLog()
            let reasons = Recorded<SessionStoreError.Reason>()
            var events = SessionStoreCallbacks()
            events.onFailure = { reasons.append($0) }
            let store = try SessionStoreFactory.make(
                configuration, group: MultiThreadedEventLoopGroup.singleton, logger: log.logger,
                clock: { Sample.start },
                events: events
            ).store
            let running = Task { await store.run() }
            try await eventually("the cause is logged") { !log.lines("reason", "wrongpass").isEmpty }
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await store.create(Sample.new(1), now: Sample.start)
            }
            expect(reasons.all.contains(.noAuth))
            let line = try require(log.lines("reason", "no_auth").first)
            expect(line["level"], equals: "warning")
            expect(line["hint"]?.contains("session.valkey.user"), equals: true)
            expect(!"\(log.all)".contains("right-password"))
            running.cancel()
            await running.value
        }
    }

    @Test("A reason is logged once a minute, with the number of failures since")
    func onceAMinute() {
        let recorded = RecordedLog()
        let log = StoreFailureLog(recorded.logger)
        let second: UInt64 = 1_000_000_000
        for count: UInt64 in 1...150 { log.failed(.read, .clusterDown, now: count * second) }
        log.failed(.insert, .full, now: 2 * second)
        let lines = recorded.lines("reason", "cluster_down")
        expect(lines.map { $0["suppressed"] }, equals: ["0", "59", "59"])
        expect(lines.allSatisfy { $0["event"] == "session_store" && $0["operation"] == "read" })
        expect(recorded.lines("reason", "full").count, equals: 1)
    }
}
