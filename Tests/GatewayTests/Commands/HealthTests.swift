import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation
import Glibc
import MockAPI
import NIOCore
import NIOPosix
import Testing

@testable import cloakroom

/// `cloakroom health`, and `serve --log-level`.
@Suite("Health", .serialized, .timeLimit(.minutes(3)))
struct HealthTests {
    private func health(
        _ arguments: [String], environment: [String: String] = [:]
    ) async throws -> (ending: ChildProgram.Ending, output: String, errors: String) {
        try await ChildProgram.run(try Executables.cloakroom(), ["health"] + arguments, environment: environment)
    }

    @Test("A gateway that is ready is said to be so, and one that has gone is not")
    func readyAndGone() async throws {
        let address = try await ServedGateway.running(GatewayFile(upstream: "http://127.0.0.1:9")) { gateway in
            let address = String(gateway.admin.dropFirst("http://".count))
            for answer in [
                try await health(["--address", address]),
                try await health([], environment: ["CLOAKROOM_ADMIN_ADDRESS": address]),
            ] {
                #expect(answer.ending == ChildProgram.Ending(status: 0), "\(answer.errors)")
                #expect(answer.output.contains("\"ready\":true"), "\(answer.output)")
            }
            return address
        }
        let gone = try await health(["--address", address])
        #expect(gone.ending == ChildProgram.Ending(status: 1))
        #expect(gone.output.hasPrefix("\(address) does not answer: "), "\(gone.output)")
    }

    @Test("A port on which something else answers is no gateway")
    func somethingElse() async throws {
        let answer = try await MockAPI.withServer(.withTwoUsers) { mock in
            try await health(["--address", String(mock.baseURL.dropFirst("http://".count))])
        }
        #expect(answer.ending == ChildProgram.Ending(status: 1))
        #expect(answer.output.contains("is no admin listener"), "\(answer.output)")
    }

    @Test("Whoever sends on to another address is no gateway, even if that one is ready")
    func redirected() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Redirecting()) }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let address = HostAndPort(host: "127.0.0.1", port: listener.localAddress?.port ?? 0)
        let answer = await HealthCheck.ask(address)
        #expect(!answer.isReady)
        #expect(answer.text == "\(address) is no admin listener: 302 Found")
        try await listener.close()
    }

    @Test("Something that takes the question and says nothing is waited for no longer than 2 seconds")
    func silence() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let start = ContinuousClock.now
        let answer = try await health(["--address", "127.0.0.1:\(listener.localAddress?.port ?? 0)"])
        #expect(answer.ending == ChildProgram.Ending(status: 1))
        #expect(answer.output.contains("does not answer"), "\(answer.output)")
        #expect((Duration.seconds(2)...Duration.seconds(20)).contains(start.duration(to: .now)))
        try await listener.close()
    }

    @Test("An address that is none is refused with what to write", arguments: ["nonsense", "127.0.0.1:0", ":80", ""])
    func badAddress(_ address: String) async throws {
        let answer = try await health(["--address", address])
        #expect(answer.ending == ChildProgram.Ending(status: 64))
        #expect(answer.errors.contains("write --address 127.0.0.1:9464"), "\(answer.errors)")
    }

    @Test("serve --log-level goes before the file, and a level that is none is refused")
    func logLevel() async throws {
        let folder = try TemporaryFolder()
        try folder.write(GatewayFile(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        let file = folder.path(of: "cloakroom.yaml")
        let program = try Executables.cloakroom()
        let wrong = try await ChildProgram.run(program, ["serve", "--config", file, "--log-level", "loud"])
        #expect(wrong.ending == ChildProgram.Ending(status: 1))
        #expect(wrong.errors.hasPrefix("--set: logging.level: \"loud\" is not one of the choices"), "\(wrong.errors)")
        let arguments = ["serve", "--config", file, "--set", "logging.level=critical", "--log-level", "notice"]
        try await ChildProgram.running(program, arguments) { program in
            // A machine with few descriptors has a warning before it.
            let address = try await program.waits(for: "a line of that level") { program in
                program.logLines.first { $0.message?.hasPrefix("listening") == true }?.address
            }
            #expect(!address.isEmpty, "\(program.output)")
        }
    }
}

/// Sends `/ready` on to a place where all is well.
private final class Redirecting: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let isFirst = String(buffer: unwrapInboundIn(data)).hasPrefix("GET /ready ")
        let ready = #"{"ready":true}"#
        let answer =
            isFirst
            ? "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
            : "HTTP/1.1 200 OK\r\nContent-Length: \(ready.utf8.count)\r\n\r\n\(ready)"
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
    }
}
