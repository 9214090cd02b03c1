import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The cached addresses of a host name")
struct DNSCacheTests {
    private let second: UInt64 = 1_000_000_000
    private var cache: DNSCache<String> { DNSCache(interval: 30 * second) }

    @Test("are resolved once for concurrent requests")
    func first() {
        var cache = cache
        expect(cache.use(now: 0), equals: .resolve)
        expect(cache.use(now: 1), equals: .wait)
        cache.resolved(["a"], now: 2)
        expect(cache.use(now: 3), equals: .use(["a"]))
    }

    @Test("are resolved again after a resolution without result")
    func unknown() {
        var cache = cache
        expect(cache.use(now: 0), equals: .resolve)
        cache.resolved([], now: 1)
        expect(cache.use(now: 2), equals: .resolve)
    }

    @Test("are refreshed in the background once per interval")
    func refreshed() {
        var cache = cache
        _ = cache.use(now: 0)
        cache.resolved(["a"], now: 0)
        expect(cache.use(now: 30 * second - 1), equals: .use(["a"]))
        expect(cache.use(now: 30 * second), equals: .useAndResolve(["a"]))
        expect(cache.use(now: 31 * second), equals: .use(["a"]))
        cache.resolved(["b", "c"], now: 32 * second)
        expect(cache.use(now: 61 * second), equals: .use(["b", "c"]))
        expect(cache.use(now: 62 * second), equals: .useAndResolve(["b", "c"]))
    }

    @Test("are kept for another interval if a refresh has no result")
    func failedRefresh() {
        var cache = cache
        _ = cache.use(now: 0)
        cache.resolved(["a"], now: 0)
        expect(cache.use(now: 40 * second), equals: .useAndResolve(["a"]))
        cache.resolved([], now: 41 * second)
        expect(cache.use(now: 42 * second), equals: .use(["a"]))
        expect(cache.use(now: 71 * second), equals: .useAndResolve(["a"]))
    }

    @Test("are resolved before use if they were not used for two intervals")
    func forgotten() {
        var cache = cache
        _ = cache.use(now: 0)
        cache.resolved(["a"], now: 0)
        expect(cache.use(now: 60 * second), equals: .resolve)
        expect(cache.use(now: 60 * second), equals: .wait)
        expect(cache.addresses, equals: ["a"])
        cache.resolved([], now: 61 * second)
        expect(cache.use(now: 62 * second), equals: .use(["a"]))
    }

    @Test("are marked suspect if no connection could be established, at most once per second")
    func doubted() {
        var cache = cache
        _ = cache.use(now: 0)
        cache.resolved(["a"], now: 0)
        cache.markSuspect(now: second - 1)
        expect(cache.use(now: second), equals: .use(["a"]))
        cache.markSuspect(now: second)
        expect(cache.use(now: second), equals: .resolve)
        cache.resolved(["b"], now: 2 * second)
        expect(cache.use(now: 2 * second), equals: .use(["b"]))
    }

    @Test("tolerate a clock that is slightly behind")
    func otherClock() {
        var cache = cache
        _ = cache.use(now: 100)
        cache.resolved(["a"], now: 100)
        expect(cache.use(now: 99), equals: .use(["a"]))
    }
}
