import ArgumentParser
import CloakroomCore
import Foundation

/// `cloakroom health`: a readiness check for process supervisors and container health checks.
struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check whether a running gateway is ready.",
        discussion: """
            Requests /ready from the admin listener and prints the response. Exits with 0 if the gateway is ready, with 1 \
            if it is not or does not respond within 2 seconds.
            """)

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The admin listener's address. Default: CLOAKROOM_ADMIN_ADDRESS, or"
                + " \(AdminConfiguration.defaults.address).",
            valueName: "host:port"))
    var address: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The certificate authority of an admin listener with TLS (PEM). The address must be in its certificate.",
            valueName: "file"))
    var caFile: String?

    func run() async throws {
        let text = address ?? ProcessInfo.processInfo.environment["CLOAKROOM_ADMIN_ADDRESS"]
        guard let address = text.map(HostAndPort.init) ?? AdminConfiguration.defaults.address, !address.host.isEmpty,
            address.port > 0
        else {
            throw ValidationError(
                "the address of the admin listener must be host:port (write --address 127.0.0.1:9464)")
        }
        let result = await HealthCheck.ask(address, caFile: caFile)
        try CommandOutput.print("\(result.text)\n")
        if !result.isReady { throw ExitCode(1) }
    }
}

/// One readiness request to an admin listener.
enum HealthCheck {
    /// The readiness and the text of the response, or the reason why there is none.
    struct HealthResponse: Equatable {
        let isReady: Bool
        let text: String
    }

    /// The part of the `/ready` response body that is evaluated.
    private struct Readiness: Decodable {
        let ready: Bool
    }

    /// The maximum size of the response body; the admin listener's responses are smaller.
    private static let maximumBytes = 65_536
    private static let timeLimit: Duration = .seconds(2)

    /// Sends the request and waits at most 2 seconds for the response.
    /// - Parameter caFile: The authority of the listener's certificate; `nil` sends clear text.
    static func ask(_ address: HostAndPort, caFile: String? = nil) async -> HealthResponse {
        let url = "\(caFile == nil ? "http" : "https")://\(address)/ready"
        do {
            let (status, body) = try await AdminExchange.get(
                url, at: "\(address)", caFile: caFile, limit: timeLimit, maximumBytes: maximumBytes)
            // Another program on that port may respond to any request with 200, so the body is checked too.
            let readiness = try? JSONDecoder().decode(Readiness.self, from: body)
            let text = String(decoding: body, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            return HealthResponse(
                isReady: readiness?.ready == true,
                text: readiness == nil ? "\(address) is not an admin listener: \(status)" : TerminalText.clean(text))
        } catch {
            return HealthResponse(isReady: false, text: "\(error)")
        }
    }
}
