import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The source of a session's tokens")
struct SessionSourceTests {
    @Test("has the same value in every release, because stored records contain it")
    func stable() {
        expect(SessionSource(upstream: "api").value, equals: 3_690_117_333_739_134_896)
        expect(SessionSource(upstream: "api"), equals: SessionSource(upstream: "api"))
        expect(SessionSource(upstream: "api") != SessionSource(upstream: "API"))
        expect(SessionSource(upstream: "") != .unknown)
    }

    @Test("is determined by the sessionSource of the sign-in upstream, not by its name or targets")
    func ofConfiguration() throws {
        func configuration(_ upstreams: [UpstreamConfiguration], _ index: Int?) -> GatewayConfiguration {
            GatewayConfiguration(
                listeners: [], upstreams: upstreams, routes: [], accounts: AccountsConfiguration(upstream: index))
        }
        let target = UpstreamTargetConfiguration(HostAndPort(host: "a.test", port: 1))
        let other = UpstreamTargetConfiguration(HostAndPort(host: "b.test", port: 2))
        let a = UpstreamConfiguration(name: "a", targets: [target])
        let moved = UpstreamConfiguration(name: "a", targets: [other])
        let renamed = UpstreamConfiguration(name: "b", targets: [target], sessionSource: "a")
        expect(configuration([a, moved], 0).sessionSource, equals: SessionSource(upstream: "a"))
        expect(configuration([a, moved], 1).sessionSource, equals: configuration([a, moved], 0).sessionSource)
        expect(configuration([renamed], 0).sessionSource, equals: SessionSource(upstream: "a"))
        expect(configuration([a], nil).sessionSource, equals: nil)
    }
}
