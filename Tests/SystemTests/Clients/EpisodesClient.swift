import Foundation
import ThinClient

/// An app's client for the API of the demo: the example of the thin client guide.
struct EpisodesClient: Sendable {
    private let gateway: GatewayClient

    init(gateway: URL, transport: any Transport = URLSessionTransport()) {
        self.gateway = GatewayClient(gateway: gateway, transport: transport)
    }

    /// Signs in. An existing session ends.
    func signIn(email: String, password: String) async throws(ClientError) -> User {
        try await gateway.signIn(name: email, password: password).user
    }

    /// The signed-in user.
    func me() async throws(ClientError) -> User {
        try await gateway.currentSession().user
    }

    /// The list of episodes; requires no session.
    func episodes() async throws(ClientError) -> [Episode] {
        try await gateway.request("GET", "/episodes", as: [Episode].self).map { $0.resolved(against: gateway.gateway) }
    }

    /// The video of an episode. Requires a session.
    func video(id: Int) async throws(ClientError) -> Video {
        try await gateway.request("GET", "/videos/\(id)", as: Video.self).resolved(against: gateway.gateway)
    }

    /// Signs out at the gateway and the API.
    func signOut() async throws(ClientError) {
        try await gateway.signOut()
    }
}
