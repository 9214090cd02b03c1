import Foundation
import NIOSSL
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Users, passwords and TLS of the server", .serialized, .timeLimit(.minutes(3)))
struct ValkeyAccessTests {
    /// The permissions that a user needs. Valkey.md lists them too, and a test compares both.
    static let permissions =
        "~cloakroom:* resetchannels -@all +hello +client|tracking +client|setname +ping +role +evalsha +eval"
        + " +exists +type +hset +hget +hmget +hgetall +hexists +hincrby +pexpire +pttl +del +get +set +time"
        + " +zadd +zrem +zrange +zscore +zremrangebyscore +wait +cluster|slots +asking"

    @Test("The tested permissions are the documented ones, on one line")
    func documentedUser() throws {
        var directory = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { directory.deleteLastPathComponent() }
        let readme = try String(
            contentsOf: directory.appending(path: "Sources/cloakroom/Documentation.docc/Valkey.md"), encoding: .utf8
        )
        let lines = readme.split(separator: "\n").filter { $0.hasPrefix("user cloakroom ") }
        expect(lines, equals: ["user cloakroom on >PASSWORD \(Self.permissions)"])
    }

    @Test("A user with the documented permissions can perform all operations")
    func minimalUser() async throws {
        let options = RedisServer.Options(configuration: ["user gate on >canary-password \(Self.permissions)"])
        try await withRedis(options) { server in
            let valkey = ValkeyConfiguration(
                addresses: [server.address], user: "gate", password: Secret("canary-password"))
            let replica = try await Replica.up(valkey)
            let (store, start) = (replica.records, SessionRecord.start)
            try await expect(store.insert(.sample()))
            try await expect(store.read(SessionID(1)), equals: .record(.sample()))
            try await expect(
                store.lease(SessionID(1), for: .seconds(9), now: start), equals: .acquired(RefreshLease(fence: 1)))
            try await expect(store.replace(.sample(account: 8, version: 2), fence: 1, now: start), equals: .done)
            try await store.release(SessionID(1), fence: 1)
            let used = start + .seconds(1)
            try await store.touch([RecordTouch(id: SessionID(1), lastUsedAt: used, keepUntil: used + .seconds(900))])
            try await expect(store.records(in: .account(8), now: start).count, equals: 1)
            await expect(store.settle([RateDebt(key: 1, charge: 2_000, most: 1_000)]).ahead, equals: [1_000])
            try await expect(store.countGateways(including: 1), equals: 1)
            let key = ThrottleKey(.address, hash: 1)
            try await expect(store.throttleStates([key], now: start), equals: [nil])
            let counter = ThrottleCounter(key, SignInThrottle.rule(.address))
            let result = ThrottleResult([counter], [nil], now: start)
            try await expect(store.countAttempt([counter], now: start), equals: result)
            _ = try await store.countAttempt([counter], now: start)
            let count = ThrottleCount(counter, over: nil, now: start)
            // From a state that another attempt has changed, and from one that none has.
            for _ in 0..<2 { try await store.removeAttempt([count], now: start) }
            try await expect(store.throttleStates([key], now: start), equals: [nil])
            try await expect(store.remove(SessionID(1), reason: .revoked, condition: nil, now: start) != .notFound)
            try await expect(store.insert(.sample(2)))
            try await expect(store.insert(.sample(2)), equals: false)
            // The index of the first account still has the id of the session that has ended.
            try await expect(store.insert(.sample(3)))
            try await expect(store.insert(.sample(4)))
            let rule = SurplusRule(limit: 1, accounts: [7], usedAfter: start - .seconds(1), new: SessionID(4))
            try await expect(store.surplus(of: 7, by: rule, now: start), equals: .records([SessionID(3)]))
            try await store.setCutoff(.account(7), keeping: nil, before: nil, lifetime: .seconds(9), now: start)
            try await expect(store.cutoffs([.account(7)], now: start).first ?? nil != nil)
            expect(empty: replica.log.lines("level", "error"))
            await replica.stop()
        }
    }

    @Test("A wrong password is logged once, with a remedy and without the password")
    func wrongPassword() async throws {
        let options = RedisServer.Options(
            configuration: ["requirepass right-password"], password: "right-password")
        try await withRedis(options) { server in
            for (password, reason) in [(Secret("canary-password"), "wrongpass"), (nil, "noauth")] {
                let replica = try Replica(ValkeyConfiguration(addresses: [server.address], password: password))
                try await eventually("the reason is logged") { !replica.log.lines("reason", reason).isEmpty }
                await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
                let line = try require(replica.log.lines("reason", reason).first)
                expect(line["level"], equals: "error")
                expect(line["address"], equals: "\(server.address)")
                expect(line["user"], equals: "default")
                expect(line["hint"]?.contains("password"), equals: true)
                expect(!"\(replica.log.all)".contains("canary-password"))
                await replica.stop()
            }
            let replica = try Replica(ValkeyConfiguration(addresses: [server.address], password: Secret("later")))
            try await eventually("the reason is logged") { !replica.log.lines("reason", "wrongpass").isEmpty }
            try await server.ask("CONFIG", "SET", "requirepass", "later")
            try await replica.isUp()
            expect(replica.log.lines("reason", "wrongpass").count, equals: 1)
            await replica.stop()
        }
    }

    @Test("A command that the user is not allowed to run is an error that names it")
    func missingPermission() async throws {
        let permissions = Self.permissions.replacing(" +hgetall", with: "")
        let options = RedisServer.Options(configuration: [
            "user gate on >canary-password \(permissions)", "user blind on >canary-password ~* -@all +hello",
        ])
        try await withRedis(options) { server in
            let valkey = ValkeyConfiguration(
                addresses: [server.address], user: "gate", password: Secret("canary-password"))
            let replica = try await Replica.up(valkey)
            for _ in 0..<3 {
                await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
            }
            let lines = replica.log.lines("reason", "noperm")
            expect(lines.count, equals: 1)
            expect(lines.first?["command"], equals: "HGETALL")
            expect(lines.first?["level"], equals: "error")
            await replica.stop()
            var blind = valkey
            blind.user = "blind"
            let other = try Replica(blind)
            try await eventually("the reason is logged") { !other.log.lines("reason", "noperm").isEmpty }
            expect(other.log.lines("reason", "noperm").first?["command"], equals: "CLIENT")
            expect(!"\(other.log.all)".contains("canary-password"))
            await other.stop()
        }
    }

    @Test("TLS works with a trusted certificate only")
    func tls() async throws {
        let directory = try TemporaryDirectory()
        let (certificate, key) = (directory.path(of: "c.pem"), directory.path(of: "k.pem"))
        try SelfSignedCertificate.makeRSA(
            name: "localhost", names: "DNS:localhost,IP:127.0.0.1", certificateFile: certificate, keyFile: key)
        var trusting = TLSConfiguration.makeClientConfiguration()
        trusting.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(certificate))
        let options = RedisServer.Options(
            configuration: [
                "tls-cert-file \(certificate)", "tls-key-file \(key)", "tls-ca-cert-file \(certificate)",
                "tls-auth-clients no",
            ], tls: trusting)
        try await withRedis(options) { server in
            let named = ValkeyConfiguration(addresses: [HostAndPort(host: "localhost", port: server.port)])
            var configuration = trusting
            // As upstream configurations list them; a server would reject protocols that it does not support.
            configuration.applicationProtocols = ["http/1.1"]
            for valkey in [named, ValkeyConfiguration(addresses: [server.address])] {
                let replica = try await Replica.up(valkey, tls: configuration)
                try await expect(replica.records.insert(.sample()), equals: valkey == named)
                await replica.stop()
            }
            let distrusting = try Replica(named, tls: .makeClientConfiguration())
            try await eventually("TLS fails without trust") { !distrusting.log.lines("reason", "tls").isEmpty }
            await distrusting.stop()
            expect(!distrusting.changes.events.contains(.up))
            var misnamed = named
            misnamed.tls = UpstreamTLSConfiguration(serverName: "elsewhere.example")
            let other = try Replica(misnamed, tls: trusting)
            try await eventually("TLS fails for another name") { !other.log.lines("reason", "tls").isEmpty }
            await other.stop()
            expect(!other.changes.events.contains(.up))
            let plain = try Replica(named)
            try await eventually("clear text fails") { plain.log.all.contains { $0["reason"] != nil } }
            await plain.stop()
            expect(!plain.changes.events.contains(.up))
        }
    }
}
