import CloakroomCore
import Testing

@testable import CloakroomSessions

@Suite("Hash slots")
struct HashSlotTests {
    @Test(
        "The slots are those of CLUSTER KEYSLOT",
        arguments: [
            ("123456789", 12_739), ("foo", 12_182), ("somekey", 11_058), ("foo{hash_tag}", 2_515),
            ("foo{}{bar}", 8_363), ("foo{{bar}}zap", 4_015), ("foo{bar}{zap}", 5_061), ("bar", 5_061), ("", 0),
            ("{}", 15_257), ("{", 4_092), ("a{b", 13_340), ("}{x}", 16_287),
            ("cloakroom:{0000000000000001}:session", 8_146),
        ] as [(String, UInt16)])
    func known(_ key: String, _ slot: UInt16) {
        #expect(HashSlot.slot(of: key) == slot)
    }

    @Test("All keys of a session share a slot, and so do an account's")
    func sessions() {
        let keys = ValkeyKeys(prefix: "p")
        for number in 0..<100 as Range<UInt64> {
            let id = SessionID(number &* 0x9e37_79b9_7f4a_7c15)
            let slot = HashSlot.slot(of: keys.session(id))
            #expect(HashSlot.slot(of: keys.lease(id)) == slot)
            #expect(HashSlot.slot(of: keys.ended(id)) == slot)
        }
    }

    @Test("A command has the slot of its key, a script that of its first key, and PING none")
    func commands() {
        #expect(ValkeyCommand("GET", key: "foo").slot == 12_182)
        #expect(ValkeyCommand("GET", key: "foo").encoded == ValkeyCommand("GET", "foo").encoded)
        #expect(SessionScripts.release.evalsha(["foo"], ["1"]).slot == 12_182)
        #expect(SessionScripts.release.eval(["foo"], ["1"]).slot == 12_182)
        #expect(ValkeyCommand("PING").slot == nil)
    }

    @Test("Slots are collected into ranges")
    func ranges() {
        var ranges = SlotRanges()
        for slot in [0, 1, 2, 5, 7, 8] { ranges.append(slot) }
        #expect(ranges.ranges == [0..<3, 5..<6, 7..<9])
    }
}
