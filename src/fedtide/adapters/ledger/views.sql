-- Views for readers that use only SQL; the same in SQLite and PostgreSQL.
--
-- A round that begins more than 4 times the median interval after the one before does not continue its window (`goes_on`),
-- because the server was not observing in between.

create view round_windows as
with spaced as (
  select run, round, began, ended, lead(began) over (partition by run order by round) as next_began from rounds
), ranked as (
  select run, next_began - began as distance,
         row_number() over (partition by run order by next_began - began) as place,
         count(*) over (partition by run) as total
  from spaced where next_began > began
), usual as (
  select run, distance from ranked where place = (total + 1) / 2
), judged as (
  select s.run, s.round, s.began, s.ended, s.next_began,
         case when s.next_began > s.began and s.next_began - s.began <= 4 * u.distance
              then 1 else 0 end as goes_on
  from spaced s left join usual u on u.run = s.run
)
select run, round, began,
       case when goes_on = 1 then next_began else ended end as until,
       row_number() over (partition by run order by round) as position,
       coalesce(sum(1 - goes_on) over (
         partition by run order by round rows between unbounded preceding and 1 preceding), 0) as window_number
from judged;

create view availability_log as
with here as (
  select p.run, p.client, s.began, s.until, s.window_number,
         s.position - row_number() over (partition by p.run, p.client order by p.round) as island
  from presence p
  join round_windows s on s.run = p.run and s.round = p.round
  join roster r on r.run = p.run and r.client = p.client
  where p.here
)
select client as device, min(began) as start, max(until) as "end", run
from here group by run, client, window_number, island;

create view availability_windows as
with windows as (
  select run, min(began) as start, max(until) as "end" from round_windows group by run, window_number
)
select r.client as device, s.start, s."end", s.run from windows s join roster r on r.run = s.run;
