import ArgumentParser
import AsyncHTTPClient
import CloakroomCore
import Foundation
import NIOCore

/// `cloakroom health`: whether a gateway is ready, for whoever watches over its process.
struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a running gateway whether it is ready.",
        discussion: """
            Asks /ready of the admin listener and prints the answer. Ends with 0 if the gateway is ready, with 1 if it is \
            not or does not answer within 2 seconds.
            """)

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Where the admin listener is. Default: CLOAKROOM_ADMIN_ADDRESS, or \(AdminConfiguration().address).",
            valueName: "host:port"))
    var address: String?

    func run() async throws {
        let text = address ?? ProcessInfo.processInfo.environment["CLOAKROOM_ADMIN_ADDRESS"]
        guard let address = text.map(HostAndPort.init) ?? AdminConfiguration().address, !address.host.isEmpty,
            address.port > 0
        else {
            throw ValidationError("there is no address of an admin listener (write --address 127.0.0.1:9464)")
        }
        let result = await HealthCheck.ask(address)
        try FileHandle.standardOutput.write(contentsOf: Data("\(result.text)\n".utf8))
        if !result.isReady { throw ExitCode(1) }
    }
}

/// One question to an admin listener.
enum HealthCheck {
    /// What it said, or why it said nothing.
    struct HealthResponse: Equatable {
        let isReady: Bool
        let text: String
    }

    /// The answer of `/ready`, as far as it matters here.
    private struct Readiness: Decodable {
        let ready: Bool
    }

    /// Larger than any answer.
    private static let maximumBytes = 65_536

    /// Asks, and waits 2 seconds at most.
    static func ask(_ address: HostAndPort) async -> HealthResponse {
        let request = HTTPClientRequest(url: "http://\(address)/ready")
        // What answers with another address is no admin listener, whoever is at that address.
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: HTTPClient.Configuration(redirectConfiguration: .disallow))
        let result: HealthResponse
        do {
            let response = try await client.execute(request, timeout: .seconds(2))
            let body = try await response.body.collect(upTo: maximumBytes)
            // Another program on that port may well say 200 to everything; it does not say this.
            let readiness = try? JSONDecoder().decode(Readiness.self, from: Data(body.readableBytesView))
            let text = String(buffer: body).trimmingCharacters(in: .whitespacesAndNewlines)
            result = HealthResponse(
                isReady: readiness?.ready == true,
                text: readiness == nil ? "\(address) is no admin listener: \(response.status)" : text)
        } catch {
            result = HealthResponse(isReady: false, text: "\(address) does not answer: \(error)")
        }
        try? await client.shutdown()
        return result
    }
}
