import CloakroomCore
import Testing

@Suite("The source of a session's tokens")
struct SessionSourceTests {
    @Test("has the same value in every release, for it stands in stored records")
    func stable() {
        #expect(SessionSource(upstream: "api").value == 3_690_117_333_739_134_896)
        #expect(SessionSource(upstream: "api") == SessionSource(upstream: "api"))
        #expect(SessionSource(upstream: "api") != SessionSource(upstream: "API"))
        #expect(SessionSource(upstream: "") != .unknown)
    }

    @Test("is that of the upstream that signs people in, by its sessionSource and not by its name or targets")
    func ofPlan() throws {
        func plan(_ upstreams: [UpstreamPlan], _ index: Int?) -> GatewayPlan {
            GatewayPlan(listeners: [], upstreams: upstreams, routes: [], accounts: AccountsPlan(upstream: index))
        }
        let target = UpstreamTargetPlan(HostAndPort(host: "a.test", port: 1))
        let other = UpstreamTargetPlan(HostAndPort(host: "b.test", port: 2))
        let a = UpstreamPlan(name: "a", targets: [target])
        let moved = UpstreamPlan(name: "a", targets: [other])
        let renamed = UpstreamPlan(name: "b", targets: [target], sessionSource: "a")
        #expect(plan([a, moved], 0).sessionSource == SessionSource(upstream: "a"))
        #expect(plan([a, moved], 1).sessionSource == plan([a, moved], 0).sessionSource)
        #expect(plan([renamed], 0).sessionSource == SessionSource(upstream: "a"))
        #expect(plan([a], nil).sessionSource == nil)
    }
}
