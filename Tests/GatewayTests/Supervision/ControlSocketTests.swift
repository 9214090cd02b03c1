import CloakroomCore
import CloakroomTelemetry
import Foundation
import NIOCore
import NIOEmbedded
import NIOPosix
import TestSupport
import Testing

@testable import cloakroom

/// The control socket and its client.
@Suite("Control socket", .timeLimit(.minutes(1)))
struct ControlSocketTests {
    /// Serves a control socket while `body` runs.
    private func serving(
        _ outcome: ReloadOutcome?, isReady: Bool = false,
        body: @escaping @Sendable (_ path: String) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "control.sock")
        let (listening, started) = AsyncStream<Void>.makeStream()
        let service = ControlSocketService(
            path: path, replacesOther: false, reload: { outcome }, isReady: { isReady },
            onListening: { started.yield() })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            for await _ in listening { break }
            try await body(path)
            group.cancelAll()
        }
    }

    private func outcome(_ problems: [String] = [], warnings: [String] = []) -> ReloadOutcome {
        ReloadOutcome(
            time: WallTime(milliseconds: 1), trigger: .poll, problems: problems, warnings: warnings,
            hash: "0123456789ab")
    }

    @Test("Rule 74: a client gets the outcome, and only the user of the gateway may connect")
    func success() async throws {
        let expected = ControlSocket.Response(outcome(warnings: ["expires"]))
        try await serving(outcome(warnings: ["expires"])) { path in
            for _ in 0..<3 {
                try await expect(ControlSocketClient.reload(path, timeout: .seconds(10)), equals: expected)
            }
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            expect(mode, equals: 0o600)
        }
        expect(expected.reloaded && expected.warnings == ["expires"] && expected.hash == "0123456789ab")
    }

    @Test("Rule 77: a request keeps no more than is needed to compare it, in all splits")
    func storage() throws {
        for unit in ["reload\n", "health\n", "why 0123456789abcdef0123456789abcdef\n", "a", "reload"] {
            try StorageProperty.check(PeerStream(unit), bound: 64) {
                var request = ControlRequest()
                return { read in
                    request.receive(read)
                    return request.storage
                }
            }
        }
    }

    @Test("health asks on the same socket as reload", arguments: [true, false])
    func health(isReady: Bool) async throws {
        try await serving(outcome(), isReady: isReady) { path in
            let response = await HealthCheck.ask(controlSocket: path)
            expect(response, equals: HealthCheck.HealthResponse(isReady: isReady, text: "{\"ready\":\(isReady)}"))
        }
        let gone = await HealthCheck.ask(controlSocket: "/nowhere/control.sock")
        expect(!gone.isReady)
        expect(gone.text.hasPrefix("no gateway of this user listens on /nowhere/control.sock: there is no such file"))
    }

    @Test("Rule 74: why names a request by its id, and nothing else")
    func why() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "control.sock")
        let (listening, started) = AsyncStream<Void>.makeStream()
        let service = ControlSocketService(
            path: path, replacesOther: false, reload: { nil }, why: { Array("{\"held\":\($0.low)}".utf8) },
            onListening: { started.yield() })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            for await _ in listening { break }
            let found = try await ControlSocketClient.exchange(
                "why \(ID128(high: 1, low: 42))\n", with: path, timeout: .seconds(10))
            expect(String(decoding: found, as: UTF8.self), equals: "{\"held\":42}")
            for request in [
                "why \n", "why 42\n", "why \(ID128(high: 1, low: 1))x\n", "why +\(ID128(high: 1, low: 1))\n",
            ] {
                try await expect(Self.exchange(request, with: path), equals: "", "\(request)")
            }
            group.cancelAll()
        }
    }

    @Test("A rejected reload returns its reasons, bounded; a gateway that stops reports it")
    func failure() async throws {
        let problems = (0..<200).map { "problem \($0) " + String(repeating: "\u{1}", count: 2_000) }
        try await serving(outcome(problems)) { path in
            let response = try await ControlSocketClient.reload(path, timeout: .seconds(10))
            expect(!response.reloaded)
            expect(response.problems.count, equals: 50)
            expect(response.problems.first?.hasPrefix("problem 0 "), equals: true)
        }
        try await serving(nil) { path in
            let response = try await ControlSocketClient.reload(path, timeout: .seconds(10))
            expect(!response.reloaded && response.problems == ["the gateway is stopping"])
        }
    }

    @Test(
        "Rule 74: a socket of a running gateway is replaced only by one that takes over, and the earlier one leaves it")
    func replaced() async throws {
        try await serving(outcome()) { path in
            let other = ControlSocketService(path: path, replacesOther: false, reload: { nil }, onListening: {})
            let error = await #expect(throws: ControlSocketError.self) { try await other.run() }
            expect(error?.description.contains("another gateway listens on it"), equals: true)
            let response = try await ControlSocketClient.reload(path, timeout: .seconds(10))
            expect(response.reloaded)
        }
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "control.sock")
        let first = try ControlSocketFile(path, replacesOther: true)
        let second = try ControlSocketFile(path, replacesOther: true)
        first.remove()
        expect(FileManager.default.fileExists(atPath: path))
        second.remove()
        expect(!FileManager.default.fileExists(atPath: path))
        close(first.descriptor)
        close(second.descriptor)
    }

    @Test("Rule 74: a socket that a process left is replaced; another file and a symbolic link are not")
    func leftBehind() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "control.sock")
        close(try ControlSocketFile(path, replacesOther: false).descriptor)
        let next = try ControlSocketFile(path, replacesOther: false)
        close(next.descriptor)
        next.remove()
        expect(!FileManager.default.fileExists(atPath: path))
        try directory.write("text", to: "control.sock")
        #expect(throws: IOError.self) { try ControlSocketFile(path, replacesOther: true) }
        try expect(String(contentsOfFile: path, encoding: .utf8), equals: "text")
        // Neither the link nor what it leads to changes.
        let link = directory.path(of: "link.sock")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(throws: IOError.self) { try ControlSocketFile(link, replacesOther: true) }
        try expect(FileManager.default.destinationOfSymbolicLink(atPath: link), equals: path)
        let dangling = directory.path(of: "dangling.sock")
        let target = directory.path(of: "target.sock")
        try FileManager.default.createSymbolicLink(atPath: dangling, withDestinationPath: target)
        #expect(throws: IOError.self) { try ControlSocketFile(dangling, replacesOther: true) }
        expect(!FileManager.default.fileExists(atPath: target))
    }

    @Test("Rule 74: the file of a new socket must be a socket of this user without permissions of others")
    func permissions() throws {
        let own = geteuid()
        expect(ControlSocketFile.isPrivate(mode: S_IFSOCK | 0o600, owner: own))
        expect(!ControlSocketFile.isPrivate(mode: S_IFSOCK | 0o600, owner: own + 1))
        for bits: mode_t in [0o010, 0o020, 0o040, 0o001, 0o002, 0o004] {
            expect(!ControlSocketFile.isPrivate(mode: S_IFSOCK | 0o600 | bits, owner: own), "\(bits)")
        }
        for type in [S_IFREG, S_IFLNK, S_IFIFO] {
            expect(!ControlSocketFile.isPrivate(mode: type | 0o600, owner: own))
        }
        // Whatever the mask of the process permits.
        let directory = try TemporaryDirectory()
        let file = try ControlSocketFile(directory.path(of: "control.sock"), replacesOther: false)
        defer { close(file.descriptor) }
        let attributes = try FileManager.default.attributesOfItem(atPath: directory.path(of: "control.sock"))
        expect(attributes[.posixPermissions] as? Int, equals: 0o600)
    }

    @Test("Rule 74: a socket whose file others could use is an error, with what to do")
    func sharedFile() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "control.sock")
        let file = try ControlSocketFile(path, replacesOther: false)
        defer { close(file.descriptor) }
        #expect(throws: Never.self) { try ControlSocketFile.privateFile(path) }
        for bits: mode_t in [0o060, 0o002] {
            expect(chmod(path, 0o600 | bits), equals: 0)
            let error = #expect(throws: ControlSocketError.self) { try ControlSocketFile.privateFile(path) }
            expect(error?.description.hasPrefix("other users could use it (write a path in a folder of "), equals: true)
        }
        file.remove()
        #expect(throws: IOError.self) { try ControlSocketFile.privateFile(path) }
    }

    @Test("A reload believes root and the own user; root also the user that owns the folder of the socket")
    func servers() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "control.sock")
        expect(ControlSocketClient.isTrusted(user: 0, group: 0, at: path, by: 1_000))
        expect(ControlSocketClient.isTrusted(user: 1_000, group: 1_000, at: path, by: 1_000))
        expect(!ControlSocketClient.isTrusted(user: 1_001, group: 1_001, at: path, by: 1_000))
        // Root can give the folder to the user of a gateway.
        let owner = geteuid() == 0 ? 12_345 : geteuid()
        if geteuid() == 0 { expect(chown(directory.path, owner, 0), equals: 0) }
        expect(ControlSocketClient.isTrusted(user: owner, group: getegid(), at: path, by: 0))
        expect(!ControlSocketClient.isTrusted(user: owner + 1, group: getegid(), at: path, by: 0))
        // In a folder for all, any user can listen.
        expect(chmod(directory.path, 0o1777), equals: 0)
        expect(!ControlSocketClient.isTrusted(user: owner, group: getegid(), at: path, by: 0))
    }

    @Test("A socket that cannot be created is an error with the path, the cause and what to do")
    func notCreated() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("text", to: "file")
        for (name, reason) in [
            ("file", "a file is there that is not replaced (write another path, or remove it)"),
            ("none/control.sock", "its folder does not exist (create the folder, or write another path)"),
            ("file/control.sock", "its folder does not exist (create the folder, or write another path)"),
        ] {
            let path = directory.path(of: name)
            let service = ControlSocketService(path: path, replacesOther: false, reload: { nil }, onListening: {})
            let error = await #expect(throws: ControlSocketError.self) { try await service.run() }
            expect(error?.description, equals: "the control socket \(path) cannot be created: \(reason)")
        }
    }

    @Test("Rule 74: connections without the request get no response, and do not block the next one for long")
    func otherRequests() async throws {
        try await serving(outcome()) { path in
            let wrong = try await Self.exchange("restart\n", with: path)
            expect(wrong, equals: "")
            let silent = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .connect(unixDomainSocketPath: path).get()
            try await expect(ControlSocketClient.reload(path, timeout: .seconds(20)).reloaded)
            try await silent.close()
        }
    }

    @Test(
        "Rule 74: a connection has 2 s for its request, and after it as long as the reload takes",
        arguments: ["", "reload", "reload\n"])
    func time(request: String) async throws {
        let gate = Gate()
        let service = ControlSocketService(
            path: "/control.sock", replacesOther: false,
            reload: {
                await gate.passed()
                return nil
            }, onListening: {})
        let channel = try await NIOAsyncTestingChannel { channel in
            try channel.pipeline.syncOperations.addHandler(ControlConnectionHandler(service: service))
        }
        try await channel.connect(to: SocketAddress(unixDomainSocketPath: "/control.sock")).get()
        try await channel.writeInbound(ByteBuffer(string: request))
        await channel.testingEventLoop.advanceTime(by: .seconds(2))
        try require(channel.isActive == (request == "reload\n"))
        gate.open()
        try await channel.closeFuture.get()
        let response = try await channel.readOutbound(as: ByteBuffer.self)
        expect(response != nil, equals: request == "reload\n")
    }

    @Test("A reload that takes longer than the timeout is an error, with what to do")
    func noResponse() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "silent.sock")
        try await RawServer.run(at: SocketAddress(unixDomainSocketPath: path)) { _, _ in
            let error = await #expect(throws: ControlSocketError.self) {
                try await ControlSocketClient.reload(path, timeout: .zero)
            }
            expect(
                error?.description.contains("did not respond within 0 s (see its log, or write a longer "), equals: true
            )
        }
    }

    @Test("Without a gateway the error names the path")
    func noGateway() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "none.sock")
        let missing = await #expect(throws: ControlSocketError.self) {
            try await ControlSocketClient.reload(path, timeout: .seconds(5))
        }
        expect(
            missing?.description,
            equals:
                "no gateway of this user listens on \(path): there is no such file (start it with --control-socket \(path))"
        )
    }

    @Test("What another program on the socket sends cannot control the terminal, and is bounded")
    func otherProgram() async throws {
        let text = "\u{1B}[2J\u{202E}" + String(repeating: "x", count: 2_000)
        let sent: [String: Any] = [
            "reloaded": false, "hash": text, "problems": Array(repeating: text, count: 99), "warnings": [text],
        ]
        let json = try JSONSerialization.data(withJSONObject: sent)
        let response = try await Self.responding(Array(json)) { path in
            try await ControlSocketClient.reload(path, timeout: .seconds(10))
        }
        expect(response.problems.count, equals: 50)
        for line in response.problems + response.warnings + [response.hash] {
            expect(line.hasPrefix("\u{FFFD}[2J\u{FFFD}xxx"))
            #expect(line.unicodeScalars.count <= 500)
        }
        expect(response.hash.unicodeScalars.count, equals: 64)
    }

    @Test("A response that is no JSON, or larger than 1 MiB, is not that of a gateway")
    func noGatewayResponse() async throws {
        for bytes in [Array("\u{1B}[2J".utf8), Array(repeating: UInt8(ascii: " "), count: 1 << 21)] {
            let error = await #expect(throws: ControlSocketError.self) {
                try await Self.responding(bytes) { try await ControlSocketClient.reload($0, timeout: .seconds(10)) }
            }
            expect(error?.description.contains("is not the control socket of a gateway (write "), equals: true)
        }
    }

    /// Runs a program on a Unix socket that sends `bytes` to a request of `body`, and closes its connection.
    private static func responding<R: Sendable>(
        _ bytes: [UInt8], body: @escaping @Sendable (_ path: String) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "other.sock")
        return try await RawServer.run(at: SocketAddress(unixDomainSocketPath: path)) { _, server in
            async let response = body(path)
            let peer = try await server.peer()
            _ = try await peer.text(1)
            // The client may hang up before it has read all.
            try? await peer.stream(ByteBuffer(bytes: bytes), times: 1)
            try? await peer.close()
            return try await response
        }
    }

    @Test(
        "The path is the option, or a file in the first folder of systemd",
        arguments: [
            (nil, [:], nil),
            ("/a/b", ["RUNTIME_DIRECTORY": "/run/c"], "/a/b"),
            (nil, ["RUNTIME_DIRECTORY": "/run/cloakroom:/run/other"], "/run/cloakroom/control.sock"),
            (nil, ["RUNTIME_DIRECTORY": ""], nil),
        ] as [(String?, [String: String], String?)])
    func path(option: String?, environment: [String: String], expected: String?) {
        expect(ControlSocket.path(option, environment: environment), equals: expected)
    }

    @Test("A request that is discarded ends without an outcome")
    func discarded() async {
        let requests = ReloadRequests()
        let performing = Task { await requests.perform() }
        for await _ in requests.stream { break }
        await expect(performing.value, equals: nil)
    }

    /// Sends a request and returns the response.
    private static func exchange(_ request: String, with path: String) async throws -> String {
        let connection = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(unixDomainSocketPath: path) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await connection.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: request))
            var response = ""
            for try await bytes in inbound { response += String(buffer: bytes) }
            return response
        }
    }
}
